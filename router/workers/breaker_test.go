package workers

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

var t0 = time.Unix(1_790_000_000, 0)

var testLimits = circuitLimits{threshold: 3, coolDown: 30 * time.Second}

// feed runs one request of each outcome through a closed or half-open circuit.
func feed(t *testing.T, c *circuit, at time.Time, outcomes ...Outcome) {
	t.Helper()
	for _, o := range outcomes {
		p, ok := c.acquire(at)
		if !ok {
			t.Fatalf("%v refused a request before its %v", c.state, o)
		}
		c.done(p, o, at, testLimits)
	}
}

func opened(t *testing.T) *circuit {
	t.Helper()
	c := &circuit{}
	feed(t, c, t0, Failure, Failure, Failure)
	if c.state != BreakerOpen {
		t.Fatalf("three failures left it %v", c.state)
	}
	return c
}

func TestOnlyConsecutiveFailuresOpenABreaker(t *testing.T) {
	for _, c := range []struct {
		name     string
		outcomes []Outcome
		want     BreakerState
	}{
		{"threshold - 1", []Outcome{Failure, Failure}, BreakerClosed},
		{"threshold", []Outcome{Failure, Failure, Failure}, BreakerOpen},
		{"a success between", []Outcome{Failure, Failure, Success, Failure, Failure}, BreakerClosed},
		{"backpressure does not reset", []Outcome{Failure, Backpressure, Failure, Backpressure, Failure}, BreakerOpen},
		{"a client error between", []Outcome{Failure, Failure, ClientError, Failure, Failure}, BreakerClosed},
		{"threshold after a client error", []Outcome{ClientError, Failure, Failure, Failure}, BreakerOpen},
		{"cancellations do not reset", []Outcome{Failure, Cancelled, Failure, Failure}, BreakerOpen},
	} {
		circ := &circuit{}
		feed(t, circ, t0, c.outcomes...)
		if circ.state != c.want {
			t.Errorf("%s: got %v, want %v", c.name, circ.state, c.want)
		}
	}
}

// Cases 14 and 15 (sglang#25811, #39464).
func TestClientErrorsAndBackpressureNeverOpenABreaker(t *testing.T) {
	for _, o := range []Outcome{ClientError, Backpressure, Cancelled} {
		c := &circuit{}
		for range 1000 {
			feed(t, c, t0, o)
		}
		if c.state != BreakerClosed || c.streak != 0 {
			t.Errorf("1000 times %v: %v with a streak of %d", o, c.state, c.streak)
		}
	}
}

func TestAnOpenBreakerLetsOneProbeThroughAfterItsCoolDown(t *testing.T) {
	c := opened(t)
	if _, ok := c.acquire(t0.Add(testLimits.coolDown - 1)); ok {
		t.Fatal("a request passed before the cool-down ended")
	}
	p, ok := c.acquire(t0.Add(testLimits.coolDown))
	if !ok || p.probe == 0 || c.state != BreakerHalfOpen {
		t.Fatalf("no probe after the cool-down: %v, %v", ok, c.state)
	}
	if _, ok := c.acquire(t0.Add(testLimits.coolDown + probeAlone - 1)); ok {
		t.Fatal("a second request passed beside the probe")
	}
}

// probes lets a circuit that just opened send three probes, each as soon as the last one is alone no more.
func probes(t *testing.T, c *circuit) (out []pass, at time.Time) {
	t.Helper()
	at = t0.Add(testLimits.coolDown)
	for _, alone := range []time.Duration{probeAlone, 2 * probeAlone, 4 * probeAlone} {
		p, ok := c.acquire(at)
		if !ok {
			t.Fatalf("no probe %s after the cool-down", at.Sub(t0.Add(testLimits.coolDown)))
		}
		out = append(out, p)
		if c.admits(at.Add(alone - 1)) {
			t.Fatalf("probe %d was not alone for %s", len(out), alone)
		}
		at = at.Add(alone)
	}
	return out, at
}

func TestAProbeThatTakesLongLetsAnotherOneGo(t *testing.T) {
	for which := range 3 {
		c := opened(t)
		out, at := probes(t, c)
		c.done(out[which], Success, at, testLimits)
		if c.state != BreakerClosed {
			t.Errorf("the success of probe %d left it %v", which+1, c.state)
		}
		c = opened(t)
		out, at = probes(t, c)
		c.done(out[which], Failure, at, testLimits)
		if c.state != BreakerOpen || c.admits(at.Add(testLimits.coolDown-1)) {
			t.Errorf("the failure of probe %d left it %v", which+1, c.state)
		}
		before := *c
		for _, p := range out {
			c.done(p, Success, at, testLimits)
		}
		if *c != before {
			t.Errorf("probes of an earlier half-open time changed %+v to %+v", before, *c)
		}
	}
}

func TestOnlyTheLastProbeFreesTheSlot(t *testing.T) {
	c := opened(t)
	out, at := probes(t, c)
	at = at.Add(-1) // the third is still alone
	c.done(out[0], Cancelled, at, testLimits)
	c.done(out[1], Backpressure, at, testLimits)
	if c.admits(at) {
		t.Fatal("an earlier probe freed the last one's slot")
	}
	c.done(out[2], Cancelled, at, testLimits)
	if _, ok := c.acquire(at); !ok {
		t.Fatal("the slot was not freed")
	}
	if c.admits(at.Add(probeAlone-1)) || !c.admits(at.Add(probeAlone)) {
		t.Fatal("a probe that joined nobody is not alone for probeAlone")
	}
}

func TestAProbesOutcomeDecides(t *testing.T) {
	for _, c := range []struct {
		o     Outcome
		want  BreakerState
		admit bool // right after
	}{
		{Success, BreakerClosed, true}, {Failure, BreakerOpen, false},
		{Cancelled, BreakerHalfOpen, true}, {ClientError, BreakerHalfOpen, true}, {Backpressure, BreakerHalfOpen, true},
	} {
		circ := opened(t)
		at := t0.Add(testLimits.coolDown)
		feed(t, circ, at, c.o)
		if circ.state != c.want || circ.admits(at) != c.admit {
			t.Errorf("probe ended in %v: got %v admitting %v, want %v admitting %v", c.o, circ.state, circ.admits(at), c.want, c.admit)
		}
		if c.o == Failure && !circ.admits(at.Add(testLimits.coolDown)) {
			t.Error("the second cool-down never ends")
		}
	}
}

func TestFailuresWhileOpenAreIgnored(t *testing.T) {
	c := &circuit{}
	var early []pass
	for range 5 {
		p, _ := c.acquire(t0)
		early = append(early, p)
	}
	for _, p := range early[:3] {
		c.done(p, Failure, t0, testLimits)
	}
	until := c.openUntil
	c.done(early[3], Failure, t0.Add(20*time.Second), testLimits)
	if c.state != BreakerOpen || !c.openUntil.Equal(until) {
		t.Fatal("a late failure prolonged the cool-down")
	}
	c.done(early[4], Success, t0.Add(20*time.Second), testLimits)
	if c.state != BreakerOpen {
		t.Fatal("a success from before the opening closed it")
	}
}

func TestAnOutcomeOfAnOldGenerationTouchesNothing(t *testing.T) {
	c := opened(t)
	at := t0.Add(testLimits.coolDown)
	lost, _ := c.acquire(at) // a probe that is cancelled late
	c.done(lost, Cancelled, at, testLimits)
	second, ok := c.acquire(at)
	if !ok {
		t.Fatal("the slot was not released")
	}
	c.done(second, Failure, at, testLimits) // open again: a new generation
	third, _ := c.acquire(at.Add(testLimits.coolDown))
	c.done(lost, Cancelled, at, testLimits)
	c.done(second, Success, at, testLimits)
	if c.state != BreakerHalfOpen || !c.probing {
		t.Fatalf("old outcomes changed the circuit: %v, probing %v", c.state, c.probing)
	}
	c.done(third, Success, at, testLimits)
	if c.state != BreakerClosed {
		t.Fatal("the right probe did not close it")
	}
}

func TestAProbeThatProducesOutputClosesAtOnceAndItsCutStillCounts(t *testing.T) {
	c := opened(t)
	p, _ := c.acquire(t0.Add(testLimits.coolDown))
	p = c.proved(p)
	if c.state != BreakerClosed {
		t.Fatalf("got %v", c.state)
	}
	c.done(p, Failure, t0, testLimits)
	if c.streak != 1 {
		t.Fatalf("the cut counted %d times", c.streak)
	}
}

// Every state meets every message; what the table of circuit does not name must change nothing.
func TestNoPairOfStateAndMessageIsUndefined(t *testing.T) {
	at := t0.Add(time.Hour)
	states := map[string]func(*testing.T) (*circuit, pass){
		"closed": func(*testing.T) (*circuit, pass) { c := &circuit{}; p, _ := c.acquire(t0); return c, p },
		"open":   func(t *testing.T) (*circuit, pass) { return opened(t), pass{} },
		"half-open with its probe out": func(t *testing.T) (*circuit, pass) {
			c := opened(t)
			p, _ := c.acquire(at)
			return c, p
		},
		"half-open without": func(t *testing.T) (*circuit, pass) {
			c := opened(t)
			p, _ := c.acquire(at)
			c.done(p, Cancelled, at, testLimits)
			return c, pass{}
		},
	}
	for name, make := range states {
		for o := range outcomeEnd {
			c, p := make(t)
			before := *c
			stale := pass{generation: c.generation + 99}
			c.done(stale, o, at, testLimits)
			c.proved(stale)
			if *c != before {
				t.Errorf("%s: an outcome %v of no generation changed %+v to %+v", name, o, before, *c)
			}
			c.done(p, o, at, testLimits)
			if c.probing && c.state != BreakerHalfOpen {
				t.Errorf("%s, %v: a probe outside half-open: %+v", name, o, *c)
			}
		}
	}
}

// twin is the breaker as a sentence: it remembers the outcomes of the present generation and derives the rest.
func TestTheBreakerAgreesWithItsDumbTwin(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 11))
		c := &circuit{}
		now := t0
		type out struct {
			p     pass
			epoch int
			probe int // 0: none, else its step + 1
		}
		var leases []out
		// The twin: epoch counts transitions, failures the streak of the epoch.
		state, failures, epoch, probe := BreakerClosed, 0, 0, 0
		var until, lonely time.Time
		var joined int
		turn := func(s BreakerState) { state, failures, probe = s, 0, 0; epoch++ }
		for step := range 300 {
			switch r.IntN(5) {
			case 0, 1:
				want := state == BreakerClosed || (state == BreakerHalfOpen && (probe == 0 || !now.Before(lonely))) || (state == BreakerOpen && !now.Before(until))
				p, ok := c.acquire(now)
				if ok != want {
					t.Fatalf("seed %d step %d: acquire %v, twin says %v in %v", seed, step, ok, want, state)
				}
				if ok {
					if state == BreakerOpen {
						turn(BreakerHalfOpen)
					}
					l := out{p: p, epoch: epoch}
					if state == BreakerHalfOpen {
						if joined++; probe == 0 {
							joined = 0
						}
						probe = step + 1
						l.probe, lonely = probe, now.Add(probeAlone<<joined)
					}
					leases = append(leases, l)
				}
			case 2, 3:
				if len(leases) == 0 {
					continue
				}
				i := r.IntN(len(leases))
				l := leases[i]
				leases = append(leases[:i], leases[i+1:]...)
				o := Outcome(r.IntN(int(outcomeEnd)))
				c.done(l.p, o, now, testLimits)
				if l.epoch != epoch {
					break
				}
				switch {
				case o == Failure && (state == BreakerHalfOpen || failures+1 == testLimits.threshold):
					turn(BreakerOpen)
					until = now.Add(testLimits.coolDown)
				case o == Failure:
					failures++
				case o == Success && state == BreakerHalfOpen:
					turn(BreakerClosed)
				case state == BreakerHalfOpen && l.probe == probe:
					probe = 0
				case state == BreakerClosed && (o == Success || o == ClientError):
					failures = 0
				}
			case 4:
				now = now.Add(time.Duration(r.IntN(40)) * time.Second)
			}
			if c.state != state || c.streak != failures || c.probing != (probe != 0) {
				t.Fatalf("seed %d step %d: %+v, twin %v streak %d probe %v", seed, step, *c, state, failures, probe)
			}
		}
	}
}

func TestTheCensusCountsBreakersThatAreNotClosed(t *testing.T) {
	var census atomic.Int64
	var moves []string
	now := t0
	b := &breaker{limits: testLimits, now: func() time.Time { return now }, notClosed: &census,
		changed: func(from, to BreakerState) { moves = append(moves, fmt.Sprintf("%v-%v", from, to)) }}
	run := func(o Outcome) {
		p, ok := b.acquire()
		if !ok {
			t.Fatal("refused")
		}
		b.done(p, o)
	}
	for range 3 {
		run(Failure)
	}
	if census.Load() != 1 || b.admits() {
		t.Fatalf("open: census %d", census.Load())
	}
	now = now.Add(testLimits.coolDown)
	p, _ := b.acquire()
	if census.Load() != 1 {
		t.Fatalf("half-open: census %d", census.Load())
	}
	b.done(p, Success)
	if census.Load() != 0 {
		t.Fatalf("closed: census %d", census.Load())
	}
	if got := fmt.Sprint(moves); got != "[closed-open open-half_open half_open-closed]" {
		t.Fatalf("transitions %s", got)
	}
	for range 3 {
		run(Failure)
	}
	b.retire()
	now = now.Add(testLimits.coolDown)
	run(Success) // a lease that outlives its worker
	if census.Load() != 0 || len(moves) != 4 {
		t.Fatalf("after retirement: census %d, transitions %v", census.Load(), moves)
	}
}

func TestOneProbeAtATimeUnderConcurrency(t *testing.T) {
	var census atomic.Int64
	b := &breaker{limits: testLimits, now: func() time.Time { return t0.Add(time.Hour) }, notClosed: &census}
	b.c = *opened(t)
	b.phase.Store(int32(BreakerOpen))
	census.Store(1)
	var out, most, passed atomic.Int64
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			for range 200 {
				p, ok := b.acquire()
				if !ok {
					continue
				}
				passed.Add(1)
				n := out.Add(1)
				for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
				}
				out.Add(-1)
				b.done(p, Cancelled)
			}
		})
	}
	wg.Wait()
	if most.Load() != 1 || passed.Load() == 0 {
		t.Fatalf("%d probes at one time, %d in all", most.Load(), passed.Load())
	}
}
