package workers

import (
	"math/rand/v2"
	"testing"
	"time"
)

// paced is a rank with a clock that the test moves.
type paced struct {
	*Rank
	t   testing.TB
	now time.Time
}

func newPaced(t testing.TB) *paced {
	p := &paced{t: t, now: time.Unix(1_000_000, 0)}
	p.Rank = only(t, fixed(t, Options{Now: func() time.Time { return p.now }}, FixedWorker{ID: "a", Models: []string{"m"}}), "m")
	return p
}

func (p *paced) take(prompt, cached int) *Lease {
	p.t.Helper()
	l, ok := p.AcquireCached(prompt, cached)
	if !ok {
		p.t.Fatal("refused")
	}
	return l
}

func (p *paced) expect(when string, queued, prefilled int64) {
	p.t.Helper()
	if got := p.LoadAt(p.now); got.QueuedPrefillTokens != queued || got.PrefilledTokens != prefilled {
		p.t.Fatalf("%s: %d queue, %d of them computed; want %d, %d", when, got.QueuedPrefillTokens, got.PrefilledTokens, queued, prefilled)
	}
}

func (p *paced) pass(d time.Duration) { p.now = p.now.Add(d) }

// firstToken answers at once with one token, as an engine that streams does when a prefill ends.
func firstToken(l *Lease) {
	l.FirstByte()
	l.Produced(1)
}

// learned is a rank that has shown to compute 1,000 tokens a second.
func learned(t testing.TB) *paced {
	p := newPaced(t)
	l := p.take(10_000, 0)
	p.pass(10 * time.Second)
	firstToken(l)
	l.Done(Success)
	p.expect("idle", 0, 0)
	return p
}

func TestQueuedPrefillDrainsAtTheSpeedTheEngineHasShown(t *testing.T) {
	p := learned(t)
	p.pass(time.Hour) // idleness is no speed
	first, second := p.take(5_000, 1_000), p.take(3_000, 0)
	p.expect("at once", 7_000, 0)
	p.pass(1500 * time.Millisecond)
	p.expect("after 1.5 s", 7_000, 1_500)
	p.pass(10 * time.Second)
	p.expect("an engine that takes longer is not trusted beyond the oldest prompt", 7_000, 4_000)
	firstToken(first)
	p.expect("the second is begun when the first is over", 3_000, 0)
	p.pass(time.Second)
	if got := p.LoadAt(p.now).PrefilledTokens; got <= 0 || got >= 1_000 { // slower than before: 14,000 tokens in 21.5 s
		t.Fatalf("%d tokens computed a second later, want fewer than at the old speed", got)
	}
	second.Done(Cancelled)
	p.expect("done", 0, 0)
}

func TestSpeedIsUnknownUntilEnoughIsSeen(t *testing.T) {
	p := newPaced(t)
	l := p.take(minRateTokens-1, 0)
	p.pass(time.Minute)
	firstToken(l)
	p.take(9_000, 0)
	p.pass(time.Minute)
	p.expect("too few tokens", 9_000, 0)

	p = newPaced(t)
	firstToken(p.take(1_000_000, 0))
	p.take(9_000, 0)
	p.pass(time.Minute)
	p.expect("no time at all", 9_000, 0)
}

func TestAnswersThatAreNotStreamedTellNoSpeed(t *testing.T) {
	p := newPaced(t)
	l := p.take(10_000, 0)
	p.pass(time.Minute)
	l.FirstByte()
	l.Done(Success)
	p.take(9_000, 0)
	p.pass(time.Minute)
	p.expect("later", 9_000, 0)
}

func TestAGivenUpPromptMakesWayForTheNext(t *testing.T) {
	p := learned(t)
	first, second, third := p.take(4_000, 0), p.take(2_000, 0), p.take(1_000, 0)
	p.pass(time.Second)
	second.Done(Cancelled) // one that waits: the oldest is not touched
	p.expect("a later one left", 5_000, 1_000)
	first.Done(Cancelled)
	p.expect("the oldest left", 1_000, 0)
	p.pass(500 * time.Millisecond)
	p.expect("the next is worked on", 1_000, 500)
	third.Done(Cancelled)
}

func TestTheSpeedFollowsTheEngine(t *testing.T) {
	p := learned(t)
	for range 200 { // ten times as fast from now on
		l := p.take(10_000, 0)
		p.pass(time.Second)
		firstToken(l)
		l.Done(Success)
	}
	p.take(100_000, 0)
	p.pass(time.Second)
	if got := p.LoadAt(p.now).PrefilledTokens; got < 9_900 || got > 10_000 {
		t.Fatalf("%d tokens a second, want some 10,000", got)
	}
}

// The twin keeps leases in a slice and derives what is known of the oldest anew each time.
func TestTheQueueAgreesWithASlice(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 1))
		p := learned(t)
		type twin struct {
			lease *Lease
			sent  time.Time
			size  int64
		}
		var queue []twin
		last := p.now
		for range 100 {
			p.pass(time.Duration(r.IntN(2_000)) * time.Millisecond)
			switch n := len(queue); {
			case n == 0 || r.IntN(2) == 0:
				prompt, cached := r.IntN(5_000), r.IntN(2_000)
				queue = append(queue, twin{p.take(prompt, cached), p.now, int64(max(0, prompt-cached))})
			default:
				at := r.IntN(n)
				if r.IntN(2) == 0 {
					queue[at].lease.FirstByte() // not streamed: the speed stays
					last = p.now
				} else {
					if at == 0 {
						last = p.now
					}
					queue[at].lease.Done(Cancelled)
				}
				queue = append(queue[:at:at], queue[at+1:]...)
			}
			p.pass(time.Duration(r.IntN(2_000)) * time.Millisecond)
			var sum, done int64
			for i, q := range queue {
				sum += q.size
				if i == 0 {
					began := q.sent
					if last.After(began) {
						began = last
					}
					done = min(q.size, p.now.Sub(began).Milliseconds()) // 1,000 tokens a second
				}
			}
			if got := p.LoadAt(p.now); got.QueuedPrefillTokens != sum || got.PrefilledTokens < done-1 || got.PrefilledTokens > done {
				t.Fatalf("seed %d: got %+v, want %d queued and %d computed", seed, got, sum, done)
			}
		}
	}
}

func BenchmarkLoadAt(b *testing.B) {
	p := learned(b)
	p.take(5_000, 0)
	now := p.now.Add(time.Second)
	b.ReportAllocs()
	for b.Loop() {
		p.LoadAt(now)
	}
}
