package publish

import (
	"slices"
	"testing"
	"time"

	"github.com/routerfleet/routerfleet/router/index"
	"github.com/routerfleet/routerfleet/router/kvevents"
	"github.com/routerfleet/routerfleet/test/enginesim"
	"github.com/routerfleet/routerfleet/test/enginesim/cache"
)

// epoch is when tests without a bubble happen.
var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// recording is a sink that keeps everything.
type recording struct {
	messages []Message
	restarts []bool // cut or not
}

func (r *recording) Publish(_ int, m Message)  { r.messages = append(r.messages, m) }
func (r *recording) Restarted(_ int, cut bool) { r.restarts = append(r.restarts, cut) }
func (r *recording) seqs() (seqs []int64) {
	for _, m := range r.messages {
		seqs = append(seqs, m.Seq)
	}
	return seqs
}

// script is a publisher and what it published; its engine is the test.
type script struct {
	*Publisher
	recording
	t *testing.T
}

func newScript(t *testing.T, opts Options) *script {
	t.Helper()
	s := &script{t: t}
	if opts.PageSize == 0 {
		opts.PageSize = 4
	}
	opts.Sink = &s.recording
	opts.Now = func() time.Time { return epoch }
	var err error
	if s.Publisher, err = New(opts); err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *script) set(name FaultName, p Params) {
	s.t.Helper()
	if err := s.Set(Fault{Name: name, Params: p}); err != nil {
		s.t.Fatal(err)
	}
}

// change publishes one step of rank 0.
func (s *script) change(changes ...enginesim.Change) {
	s.Observe(enginesim.Step{Time: epoch, Changes: changes})
}

// tokens are n tokens that begin at from.
func tokens(from, n int) []uint32 {
	all := make([]uint32, n)
	for i := range all {
		all[i] = uint32(from + i)
	}
	return all
}

// chain stores n blocks of 4 tokens from a chain's start on.
func chain(from, n int) enginesim.Stored {
	all := tokens(from, 4*n)
	return enginesim.Stored{Keys: cache.Chain(all, 4, ""), Tokens: all, PageSize: 4}
}

// rest is a chain without its first n blocks.
func rest(c enginesim.Stored, n int) enginesim.Stored {
	c.Parent = &c.Keys[n-1]
	c.Keys, c.Tokens = c.Keys[n:], c.Tokens[n*c.PageSize:]
	return c
}

// faulted publishes two batches, of two blocks and of one, under a fault.
func faulted(t *testing.T, name FaultName, p Params) *script {
	t.Helper()
	s := newScript(t, Options{})
	s.set(name, p)
	c := chain(1, 3)
	s.change(enginesim.Stored{Keys: c.Keys[:2], Tokens: c.Tokens[:8], PageSize: 4})
	s.change(rest(c, 2))
	if s.NextSeq(0) != 2 {
		t.Errorf("%d seqs are taken, want 2", s.NextSeq(0))
	}
	if _, used := s.Faults(); p.Batches == 1 && used[name] != 1 {
		t.Errorf("the fault took effect %d times, want once", used[name])
	}
	if active, _ := s.Faults(); p.Batches == 1 && len(active) != 0 {
		t.Errorf("still active: %v", active)
	}
	return s
}

func (s *script) want(seqs ...int64) {
	s.t.Helper()
	if got := s.seqs(); !slices.Equal(got, seqs) {
		s.t.Errorf("published seqs %v, want %v", got, seqs)
	}
}

func replayed(answers []Answer) (seqs []int64) {
	for _, a := range answers {
		seqs = append(seqs, a.Seq)
	}
	return seqs
}

// read decodes a message with the router's decoder, once and for all of the test.
func read(s *script, i int) *kvevents.Batch {
	return kvevents.NewDecoder(kvevents.DecoderOptions{Scheme: index.SchemeSGLang}).Decode(s.messages[i].Seq, s.messages[i].Payload)
}

func skips(s *script, i int) kvevents.Skips { return read(s, i).Skips }

// wantTrusted checks that the router's decoder passes nothing over.
func wantTrusted(t *testing.T, s *script, i int) {
	t.Helper()
	if b := read(s, i); b.Untrusted() || len(b.Events) == 0 {
		t.Errorf("message %d: %d events, skips %v, want all of it decoded", i, len(b.Events), b.Skips)
	}
}
