package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/routerfleet/routerfleet/test/bench/page"
)

// process is one role running as a child of this program.
type process struct {
	name    string
	address string
	cmd     *exec.Cmd
	out     io.Closer
}

func spawn(name, role string, args ...string) (*process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(self, append([]string{"serve", role}, args...)...)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		_ = cmd.Process.Kill()
		return nil, errors.Join(fmt.Errorf("%s told no address: %w", name, err), cmd.Wait())
	}
	return &process{name: name, address: strings.TrimSpace(line), cmd: cmd, out: out}, nil
}

// cpu is the processor time the process has used so far, from /proc; 0 where there is none.
func (p *process) cpu() time.Duration {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.cmd.Process.Pid))
	if err != nil {
		return 0
	}
	_, after, _ := strings.Cut(string(stat), ") ")
	fields := strings.Fields(after)
	if len(fields) < 13 {
		return 0
	}
	user, _ := strconv.ParseInt(fields[11], 10, 64)
	system, _ := strconv.ParseInt(fields[12], 10, 64)
	const tick = 10 * time.Millisecond // USER_HZ is 100 on every Linux
	return time.Duration(user+system) * tick
}

func (p *process) stop() error {
	_ = p.cmd.Process.Signal(syscall.SIGTERM) // a process that is gone is told by Wait
	return p.cmd.Wait()
}

// load is one kind of request.
type load struct {
	name  string
	body  string
	least int
}

// measure runs everything and stops the processes.
func measure(s settings) (r report, err error) {
	var all []*process
	defer func() {
		for _, p := range slices.Backward(all) {
			if stopped := p.stop(); stopped != nil && err == nil {
				err = fmt.Errorf("stop %s: %w", p.name, stopped)
			}
		}
	}()
	engine, err := spawn("direct", "engine", strconv.Itoa(s.chunks))
	if err != nil {
		return r, err
	}
	all = append(all, engine)
	for _, role := range []string{"reverse-proxy", "router"} {
		p, err := spawn(role, role, "http://"+engine.address)
		if err != nil {
			return r, err
		}
		all = append(all, p)
	}
	r = report{settings: s, machine: page.Machine()}
	chat := load{"chat", chatBody(s.bodyBytes, false), len(engineChat)}
	stream := load{"stream", chatBody(s.bodyBytes, true), s.chunks * len(engineEvent)}
	for _, p := range all {
		if err := awaitAnswer(p, chat); err != nil {
			return r, err
		}
	}
	if r.latency, err = latencies(all, chat, s.requests); err != nil {
		return r, err
	}
	for _, l := range []load{chat, stream} {
		rates, err := throughputs(all, l, s)
		if err != nil {
			return r, err
		}
		r.throughput = append(r.throughput, rates)
	}
	return r, nil
}

func chatBody(size int, stream bool) string {
	head := fmt.Sprintf(`{"model":"m","stream":%v,"messages":[{"role":"user","content":"`, stream)
	tail := `"}]}`
	return head + strings.Repeat("lorem ipsum ", size)[:max(1, size-len(head)-len(tail))] + tail
}

// awaitAnswer waits until a target answers: the router first has to meet its engine.
func awaitAnswer(p *process, l load) error {
	deadline := time.Now().Add(20 * time.Second)
	for {
		c, err := dial(p.address, l.body, l.least)
		if err == nil {
			err = c.call()
			c.conn.Close()
		}
		if err == nil {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%s does not answer: %w", p.name, err)
		}
		<-time.After(20 * time.Millisecond)
	}
}

// latencies asks every target in turn over one kept connection each.
func latencies(targets []*process, l load, n int) (map[string][]time.Duration, error) {
	callers := make([]*caller, len(targets))
	for i, p := range targets {
		c, err := dial(p.address, l.body, l.least)
		if err != nil {
			return nil, err
		}
		defer c.conn.Close()
		callers[i] = c
	}
	out := map[string][]time.Duration{}
	warmup := n / 10
	for i := range n + warmup {
		for j, p := range targets {
			began := time.Now()
			if err := callers[j].call(); err != nil {
				return nil, fmt.Errorf("%s: %w", p.name, err)
			}
			if i >= warmup {
				out[p.name] = append(out[p.name], time.Since(began))
			}
		}
	}
	for _, d := range out {
		slices.Sort(d)
	}
	return out, nil
}

// rates are the requests a second of each target in each round, and its processor time a request over all rounds.
type rates struct {
	load      string
	perSecond map[string][]float64
	cpu       map[string]time.Duration
	// failed counts broken answers. Only the bare reverse proxy may have some: net/http closes the client's body when
	// the answer begins, and a request that is still being written upstream then fails with it. The router sends the
	// body from memory.
	failed map[string]int
}

func throughputs(targets []*process, l load, s settings) (rates, error) {
	out := rates{load: l.name, perSecond: map[string][]float64{}, cpu: map[string]time.Duration{}, failed: map[string]int{}}
	served := map[string]int{}
	for range s.rounds {
		for _, p := range targets {
			before := p.cpu()
			n, failed, took, err := saturate(p, l, s.connections, s.roundTime)
			if err != nil && (p.name != "reverse-proxy" || failed == 0) {
				return out, fmt.Errorf("%s: %w", p.name, err)
			}
			out.failed[p.name] += failed
			out.perSecond[p.name] = append(out.perSecond[p.name], float64(n)/took.Seconds())
			out.cpu[p.name] += p.cpu() - before
			served[p.name] += n
		}
	}
	for _, p := range targets {
		slices.Sort(out.perSecond[p.name])
		out.cpu[p.name] /= time.Duration(max(served[p.name], 1))
	}
	return out, nil
}

// saturate sends from all connections at once for a time and counts the answers. err is the first error of the last
// connection that had one; a connection dials again after each.
func saturate(p *process, l load, connections int, d time.Duration) (n, failed int, took time.Duration, err error) {
	var mu sync.Mutex // guards the results
	began := time.Now()
	var wg sync.WaitGroup
	for range connections {
		wg.Go(func() {
			good, bad, fault := 0, 0, error(nil)
			for time.Since(began) < d {
				got, broken := callUntil(p, l, began.Add(d))
				good += got
				if broken != nil {
					bad, fault = bad+1, broken
				}
			}
			mu.Lock()
			defer mu.Unlock()
			n, failed = n+good, failed+bad
			if fault != nil {
				err = fault
			}
		})
	}
	wg.Wait()
	return n, failed, time.Since(began), err
}

// callUntil makes requests over one connection until a time or the first error.
func callUntil(p *process, l load, end time.Time) (n int, err error) {
	c, err := dial(p.address, l.body, l.least)
	if err != nil {
		return 0, err
	}
	defer c.conn.Close()
	for time.Now().Before(end) {
		if err := c.call(); err != nil {
			return n, err
		}
		n++
	}
	return n, nil
}
