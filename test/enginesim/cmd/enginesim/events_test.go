package main

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/alecthomas/kong"

	"github.com/routerfleet/routerfleet/router/kvevents"
	"github.com/routerfleet/routerfleet/router/zmtp"
	"github.com/routerfleet/routerfleet/test/enginesim/publish"
)

// parse reads flags as the program does.
func parse(t *testing.T, args ...string) flags {
	t.Helper()
	var f flags
	parser, err := kong.New(&f, kong.Vars{"version": "test", "dialects": dialects()})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := parser.Parse(args); err != nil {
		t.Fatal(err)
	}
	return f
}

func TestFlagsSayWhatIsPublished(t *testing.T) {
	quiet := slog.New(slog.DiscardHandler)
	o := parse(t, "--name=a").eventOptions(quiet)
	if o.Ports != (publish.Ports{Events: 5557, Replay: 5657, Load: 5757}) || o.Dialect.IsVLLM() || o.PageSize != 64 || o.BufferSteps != 10_000 || o.HashScheme != "" {
		t.Errorf("by default: %+v", o.Options)
	}
	o = parse(t, "--engine=vllm", "--name=a").eventOptions(quiet)
	again := parse(t, "--engine=vllm", "--name=a").eventOptions(quiet)
	if o.Dialect != publish.VLLMMap || o.HashScheme != publish.Opaque || o.Ports.Load != 0 || o.HashSeed == again.HashSeed {
		t.Errorf("vLLM: %+v", o.Options)
	}
	o = parse(t, "--engine=vllm", "--kv-hash=sha256_cbor", "--kv-dialect=vllm-int", "--kv-lora-name=tuned", "--kv-hybrid", "--kv-topic=kv").eventOptions(quiet)
	if o.HashSeed != "0" || o.Dialect != publish.VLLMInt || o.LoRA != "tuned" || !o.Hybrid || o.Topic != "kv" {
		t.Errorf("vLLM with flags: %+v", o.Options)
	}
}

func TestFlagsThatContradictEndTheProgram(t *testing.T) {
	for want, args := range map[string][]string{
		"--bigram is SGLang's": {"--engine=vllm", "--bigram"},
		"the dialects are":     {"--kv-dialect=esperanto"},
		"looks like sglang":    {"--kv-dialect=vllm-map", "--kv-events-port=0"},
		"give them room":       {"--kv-replay-port=5558", "--dp-size=4"},
		"only vLLM":            {"--kv-hybrid"},
	} {
		f := parse(t, append(args, "--host=127.0.0.1", "--port=0", "--log-level=error")...)
		if want == "looks like sglang" {
			f.KVEventsPort, f.KVReplayPort, f.LoadPort = freePorts(t, 1)[0], 0, 0
		}
		if err := run(f, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: got %v, want %q", args, err, want)
		}
	}
}

// freePorts are ports nobody listened on a moment ago.
func freePorts(t *testing.T, n int) []int {
	t.Helper()
	var ports []int
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = l.Close() }() // when all are found, so that they differ
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
	}
	return ports
}

// first hands over the first message of a topic.
type first chan [][]byte

func (first) Connected(uint64)           {}
func (first) Disconnected(uint64, error) {}
func (first) Unreachable(error)          {}
func (c first) Message(_ uint64, parts [][]byte) {
	kept := make([][]byte, len(parts))
	for i, p := range parts {
		kept[i] = append([]byte(nil), p...)
	}
	select {
	case c <- kept:
	default:
	}
}

func TestTheProgramPublishesOnItsPorts(t *testing.T) {
	p := freePorts(t, 4)
	f := parse(t, "--host=127.0.0.1", "--port="+strconv.Itoa(p[0]), "--kv-events-port="+strconv.Itoa(p[1]), "--kv-replay-port="+strconv.Itoa(p[2]),
		"--load-port="+strconv.Itoa(p[3]), "--page-size=4", "--log-level=error", "--drain-secs=5")
	signals := make(chan os.Signal, 2)
	ended := make(chan error, 1)
	go func() { ended <- run(f, signals) }()
	at := func(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

	ctx, stop := context.WithCancel(t.Context())
	load := make(first, 1)
	following := make(chan struct{})
	go func() {
		defer close(following)
		_ = zmtp.NewSub(zmtp.SubOptions{Address: at(p[3]), Topic: publish.DefaultLoadTopic}, load).Run(ctx)
	}()
	if parts := <-load; len(parts) != 3 || !strings.Contains(string(parts[2]), "LoadStat") {
		t.Errorf("load %q", parts)
	}
	stop()
	<-following

	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 30 * time.Second}
	res, err := client.Post("http://"+at(p[0])+"/v1/completions", "application/json", strings.NewReader(`{"prompt":"hello, world","max_tokens":1}`))
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	// A request's last step is published after its answer; a rank answers for its state after that.
	if res, err = client.Get("http://" + at(p[0]) + "/control/state"); err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	got := kvevents.Replay(t.Context(), kvevents.ReplayOptions{Address: at(p[2])})
	if !got.Covers(0) || len(got.Batches[0].Events) == 0 {
		t.Errorf("replay: %v, %v", got.Ending, got.Err)
	}
	got.Release()
	signals <- syscall.SIGTERM
	if err := <-ended; err != nil {
		t.Errorf("run: %v", err)
	}
}
