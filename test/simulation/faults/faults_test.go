package faults

import (
	"flag"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/routerfleet/routerfleet/router/index"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var (
	runs  = flag.Int("runs", 200, "seeds of the fault matrix")
	first = flag.Uint64("first-seed", 0, "the first of them")
	box   = flag.Duration("box", time.Minute, "begin no seed after this time; 0: run them all")
)

// mixes are the kinds of fleets. Seeds go round them.
var mixes = []mix{
	{name: "all", scheme: index.SchemeSGLang, identity: true, replays: true},
	{name: "bare", scheme: index.SchemeSGLang},
	{name: "tokens", scheme: index.SchemeTokens, identity: true, replays: true},
	{name: "identity", scheme: index.SchemeSGLang, identity: true},
	{name: "replays", scheme: index.SchemeTokens, replays: true},
	{name: "evict", scheme: index.SchemeSGLang, identity: true, replays: true, maxBlocks: 60},
	{name: "corrupt", scheme: index.SchemeSGLang, identity: true, corrupt: true},
}

// fault does one of the things that happen.
func (w *world) fault() {
	e := w.engines[w.pick(len(w.engines))]
	r := e.ranks[w.pick(len(e.ranks))]
	names := w.present()
	name := names[w.pick(len(names))]
	switch w.pick(17) {
	case 0, 1:
		n := 1 + w.pick(3)
		w.onConn(r, name, fmt.Sprintf("loses %d", n), func(c *conn) { c.lose(n) })
	case 2:
		r.publish(true)
	case 3, 4:
		d := w.latency(5 * time.Second)
		w.onConn(r, name, fmt.Sprintf("stalls %v", d), func(c *conn) { c.stall(d) })
	case 5, 6:
		w.onConn(r, name, "breaks", func(c *conn) { c.breakOff() })
	case 7, 8:
		w.restart(e)
	case 9:
		d := w.latency(4*time.Second) - 2*time.Second
		w.say("the clock of %s steps to %v", e.name, d)
		e.mu.Lock()
		e.offset, e.changed = d, time.Now()
		e.mu.Unlock()
	case 10, 11:
		w.reboot(name)
	case 12:
		w.part(name, names[w.pick(len(names))])
	case 13:
		w.part(name, e.name)
	case 14, 15:
		n := 1 + w.pick(2)
		w.onConn(r, name, fmt.Sprintf("loses %d, and the engine falls silent", n), func(c *conn) { c.lose(n) })
		for range n {
			r.publish(false)
		}
		w.quiet(r)
	case 16:
		w.quiet(r)
	}
}

// quiet has a rank say nothing for some time.
func (w *world) quiet(r *rank) {
	d := w.latency(300 * time.Second)
	w.say("%s/%d says nothing for %v", r.e.name, r.dp, d)
	r.e.mu.Lock()
	r.quiet = time.Now().Add(d)
	r.e.mu.Unlock()
}

// onConn does something to a replica's connections to a rank.
func (w *world) onConn(r *rank, name, what string, do func(*conn)) {
	w.say("%s: connection to %s/%d %s", name, r.e.name, r.dp, what)
	for _, x := range w.all() {
		if x.name != name {
			continue
		}
		for _, s := range x.subs {
			if s.rank == r {
				s.mu.Lock()
				c := s.conn
				s.mu.Unlock()
				if c != nil {
					do(c)
				}
			}
		}
	}
}

// restart ends an engine's process and begins another, which may have said much before anybody is connected again.
func (w *world) restart(e *engine) {
	w.say("%s dies", e.name)
	e.die()
	sleep(w.ctx, w.latency(3*time.Second))
	e.boot()
	w.say("%s boots, process %d", e.name, e.process)
	if w.chance(0.4) {
		for range w.pick(60) {
			for _, r := range e.ranks {
				r.publish(false)
			}
		}
	}
}

// reboot restarts a replica's container.
func (w *world) reboot(name string) {
	w.say("%s dies", name)
	w.mu.Lock()
	r := w.replicas[name]
	delete(w.replicas, name)
	w.mu.Unlock()
	r.die()
	sleep(w.ctx, w.latency(4*time.Second))
	w.say("%s boots", name)
	w.begin(name)
}

func (w *world) part(a, b string) {
	if a == b {
		return
	}
	d := w.latency(20 * time.Second)
	w.say("%s and %s do not reach each other for %v", a, b, d)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.parts[[2]string{min(a, b), max(a, b)}] = time.Now().Add(d)
}

// revive boots what is down.
func (w *world) revive() {
	for _, e := range w.engines {
		e.mu.Lock()
		alive := e.alive
		e.mu.Unlock()
		if !alive {
			e.boot()
		}
	}
}

// After faults of every kind each replica's answers equal the engines' true content, or the rank says what it is worth; and
// no rank ever claims what is not true as of its cursor.
func TestFaultMatrix(t *testing.T) {
	var (
		mu    sync.Mutex // guards all and done
		all   = map[string]int{}
		done  int
		begin = time.Now()
	)
	t.Run("seeds", func(t *testing.T) {
		for seed := *first; seed < *first+uint64(*runs); seed++ {
			m := mixes[seed%uint64(len(mixes))]
			t.Run(fmt.Sprintf("seed=%d,%s", seed, m.name), func(t *testing.T) {
				t.Parallel()
				if *box > 0 && time.Since(begin) > *box && seed >= *first+uint64(len(mixes)) {
					return // counted below
				}
				counts := matrix(t, seed, m)
				mu.Lock()
				defer mu.Unlock()
				done++
				for what, n := range counts {
					all[what] += n
				}
			})
		}
	})
	t.Logf("%d of %d seeds in %s", done, *runs, time.Since(begin).Round(time.Second))
	for _, what := range slices.Sorted(maps.Keys(all)) {
		t.Logf("%6d %s", all[what], what)
	}
	for _, must := range []string{"graft grafted none", "repair replay", "gaps", "end whole", "restart start"} {
		if done >= len(mixes) && all[must] == 0 {
			t.Errorf("no run had %q: the faults do not bite", must)
		}
	}
	whole, others := all["end whole"], 0
	for what, n := range all {
		if len(what) > 4 && what[:4] == "end " && what != "end whole" {
			others += n
		}
	}
	if whole < others {
		t.Errorf("%d ranks end whole, %d do not: the protocol does not heal", whole, others)
	}
}

// matrix plays one seed and gives what happened.
func matrix(t *testing.T, seed uint64, m mix) (counts map[string]int) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, seed, m)
		w.play()
		for _, v := range w.violated {
			t.Errorf("seed %d (%s): %s", seed, m.name, v)
		}
		if testing.Verbose() && (t.Failed() || *runs == 1) {
			t.Log("\n" + w.story.String())
		}
		counts = w.counts
	})
	return counts
}
