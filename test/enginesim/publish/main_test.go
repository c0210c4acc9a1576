package publish

import (
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/routerfleet/routerfleet/test/enginesim"
	"github.com/routerfleet/routerfleet/test/enginesim/cache"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

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
