package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/routerfleet/routerfleet/internal/signed"
	"github.com/routerfleet/routerfleet/router/cursor"
	"github.com/routerfleet/routerfleet/router/index"
	"github.com/routerfleet/routerfleet/router/snapshot"
	"github.com/routerfleet/routerfleet/test/bench/clock"
)

const (
	systemPrompts, systemBlocks, sessionBlocks = 8, 128, 200
	// gcPercent is what the router sets for its own heap.
	gcPercent = 25
	// sliceRows is how many names the pump gives at a time.
	sliceRows = 4096
)

// keys sign the calls between the two processes.
func keys() []signed.Key { return []signed.Key{signed.NewKey([]byte("a token of the benchmark"))} }

func (s shape) section() snapshot.SectionKey {
	return snapshot.SectionKey{Model: "bench", Scheme: s.Scheme, BlockSize: 64}
}

func (s shape) rank(i int) index.Rank {
	return index.Rank{Worker: fmt.Sprintf("%08d-0000-0000-0000-000000000000", i)}
}

func (s shape) worker(i int) snapshot.Worker {
	return snapshot.Worker{PodUID: s.rank(i).Worker, URL: fmt.Sprintf("http://10.0.%d.%d:8000", i/250, i%250)}
}

func (s shape) cursor(i int) cursor.Cursor {
	return cursor.Cursor{
		Incarnation: cursor.Incarnation{Worker: s.rank(i).Worker, Start: cursor.Start{Known: true, ID: "1700000000"}},
		Seq:         100, Time: 1_700_000_000_000_000_000, Hash: 7, Proof: cursor.Proven,
	}
}

// chain gives a system prompt or a session: the same keys in every process.
func chain(kind uint64, i, n int, into []index.Key) []index.Key {
	rng := rand.New(rand.NewPCG(kind, uint64(i)))
	into = into[:0]
	for range n {
		into = append(into, index.Key(rng.Uint64()))
	}
	return into
}

// source is a pump's indexes without a pump.
type source struct {
	shape   shape
	index   *index.Index
	holders []*index.Holder
}

func newSource(s shape) (*source, error) {
	src := &source{shape: s, index: index.New(index.Options{})}
	var prompts [systemPrompts][]index.Key
	for i := range prompts {
		prompts[i] = chain(1, i, systemBlocks, nil)
	}
	for i := range s.Ranks {
		h, err := src.index.Rank(s.rank(i))
		if err != nil {
			return nil, err
		}
		src.holders = append(src.holders, h)
		for _, p := range prompts {
			src.index.Store(h, index.Root, p, index.Device)
		}
	}
	var keys []index.Key
	for i := range s.Sessions {
		keys = chain(2, i, sessionBlocks, keys)
		p := prompts[i%systemPrompts]
		src.index.Store(src.holders[i%s.Ranks], index.After(p[len(p)-1]), keys, index.Device)
		if i%100 == 0 {
			src.index.Work(1000)
		}
	}
	return src, nil
}

func (s *source) Ready() bool              { return true }
func (s *source) SeedableSince() time.Time { return time.Unix(1_700_000_000, 0) }

func (s *source) row(i int) snapshot.Row {
	h := s.holders[i]
	return snapshot.Row{
		Rank: s.shape.rank(i), Worker: s.shape.worker(i), Cursor: s.shape.cursor(i), Life: h.State(),
		Digest: h.Digest, DigestVersion: index.DigestVersion, Blocks: h.Blocks[0], Exportable: true,
	}
}

func (s *source) Sections() []snapshot.SourceSection {
	out := snapshot.SourceSection{Key: s.shape.section(), Index: s.index}
	for i := range s.holders {
		out.Rows = append(out.Rows, s.row(i))
	}
	return []snapshot.SourceSection{out}
}

func (s *source) Row(_ snapshot.SectionKey, rank index.Rank) (snapshot.Row, bool) {
	i, err := strconv.Atoi(rank.Worker[:8])
	if err != nil || i >= len(s.holders) {
		return snapshot.Row{}, false
	}
	return s.row(i), true
}

// Hashes makes the names that an engine would have given.
func (s *source) Hashes(ctx context.Context, _ snapshot.SectionKey, rank index.Rank, emit func([]snapshot.HashRow, []snapshot.OrphanRow) error) error {
	first, err := strconv.Atoi(rank.Worker[:8])
	if err != nil {
		return err
	}
	var rows []snapshot.HashRow
	var keys []index.Key
	give := func(kind uint64, i, n int) error {
		keys = chain(kind, i, n, keys)
		for _, k := range keys {
			rows = append(rows, snapshot.HashRow{Hash: uint64(k) * 31, Key: k, Copies: 1})
		}
		if len(rows) < sliceRows {
			return ctx.Err()
		}
		err := emit(rows, nil)
		rows = rows[:0]
		return err
	}
	for i := range systemPrompts {
		if err := give(1, i, systemBlocks); err != nil {
			return err
		}
	}
	for i := first; i < s.shape.Sessions; i += s.shape.Ranks {
		if err := give(2, i, sessionBlocks); err != nil {
			return err
		}
	}
	return emit(rows, nil)
}

// teach serves an index to learners, each in another process.
func teach(s shape) (figures, error) {
	debug.SetGCPercent(gcPercent)
	f := figures{Shape: s}
	src, err := newSource(s)
	if err != nil {
		return f, err
	}
	debug.FreeOSMemory()
	f.IndexBytes = resident("VmRSS")
	if err := forgetPeak(); err != nil {
		return f, err
	}
	handler := snapshot.NewHandler(src, snapshot.Options{Keys: keys})
	defer handler.Close()
	var sent atomic.Int64
	server := &http.Server{Handler: handler, ReadHeaderTimeout: time.Minute}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return f, err
	}
	go func() { _ = server.Serve(&counting{l, &sent}) }()
	defer server.Close()
	cpu := clock.Spent()
	all, err := learnAtOnce(s, "http://"+l.Addr().String())
	if err != nil {
		return f, err
	}
	f.CPU = clock.Spent() - cpu
	bodies := int64(max(2, len(all))) // one learner reads it twice
	f.TeacherPeak, f.Bytes = resident("VmHWM"), sent.Load()/bodies
	f.Learnt = together(all)
	return f, nil
}

// counting counts what a server sends.
type counting struct {
	net.Listener
	sent *atomic.Int64
}

func (c *counting) Accept() (net.Conn, error) {
	conn, err := c.Listener.Accept()
	return &countedConn{conn, c.sent}, err
}

type countedConn struct {
	net.Conn
	sent *atomic.Int64
}

func (c *countedConn) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	c.sent.Add(int64(n))
	return n, err
}

// resident reads a figure of the process's memory in bytes, 0 where there is none.
func resident(name string) int64 {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(line, name+":"); ok {
			n, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")), 10, 64)
			if err == nil {
				return n << 10
			}
		}
	}
	return 0
}

// forgetPeak has VmHWM begin anew.
func forgetPeak() error { return os.WriteFile("/proc/self/clear_refs", []byte("5"), 0) }
