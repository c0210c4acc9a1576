package rollout_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/routerfleet/routerfleet/controllers/rollout"
)

var (
	simTime = flag.Duration("sim.time", 4*time.Second, "how long the random simulation runs")
	simRuns = flag.Int("sim.runs", 1<<30, "how many random simulations run at most")
	simSeed = flag.Uint64("sim.seed", 1, "the seed of the first random simulation; the next ones count up")
	simShow = flag.Bool("sim.show", false, "print every tick of the first random simulation and stop after it")
)

const simTicks = 480

// scenario is one random run: a fleet, a user who edits, faults, a lazy cache, an operator that dies. After 40 % of
// the time all faults end and the fleet must converge and fall silent.
type scenario struct {
	seed uint64
	rnd  *rand.Rand
	c    *cluster
	o    *operator
	n    int // revisions so far
	calm bool
	atEnd,
	healAt int
}

func newScenario(seed uint64) *scenario {
	rnd := rand.New(rand.NewPCG(seed, 3))
	s := spec{generation: 1, replicas: 1 + rnd.IntN(6), surge: 1, target: "r0", unproven: 1}
	switch rnd.IntN(6) {
	case 0:
		s.surge = 2 + rnd.IntN(2)
	case 1:
		s.surge, s.unavailable = 0, 1
	case 2:
		s.unavailable, s.unproven = 1, 1+rnd.IntN(2)
	}
	c := newCluster(seed, s)
	x := &scenario{seed: seed, rnd: rnd, c: c, o: newOperator(c, seed), calm: rnd.IntN(3) == 0, healAt: simTicks * 2 / 5}
	x.o.crash = []float64{0, 0, .1, .3}[rnd.IntN(4)]
	x.o.lag = []int{0, 0, 2, 5, 10}[rnd.IntN(5)]
	if x.calm || rnd.IntN(4) > 0 {
		x.startOld()
	}
	x.o.check.calm = x.calm && s.unavailable == 0
	return x
}

// startOld gives a fleet that settled long ago.
func (x *scenario) startOld() {
	c := x.c
	for slot := range int32(c.spec.replicas) {
		c.create(slot, "r0", 0)
	}
	for _, s := range c.live() {
		c.newPod(s)
	}
	for _, p := range c.pods {
		p.start, p.ready, p.readySince = -100, true, -98
	}
	c.stable = "r0"
}

func (x *scenario) edit(change func(*spec)) {
	change(&x.c.spec)
	x.c.spec.generation++
}

// user edits the spec as users do: a new revision now and then, an undo, scaling, a pause.
func (x *scenario) user() {
	c, rnd := x.c, x.rnd
	switch p := rnd.Float64(); {
	case p < .025:
		x.n++
		rev := fmt.Sprintf("r%d", x.n)
		c.faults[rev] = []fault{healthy, healthy, healthy, badImage, unschedulable, overQuota, crashing, neverReady, silent}[rnd.IntN(9)]
		x.edit(func(s *spec) { s.target = rev })
	case p < .030 && c.stable != "":
		x.edit(func(s *spec) { s.target = c.stable })
	case p < .045:
		x.edit(func(s *spec) { s.replicas = rnd.IntN(7) })
	case p < .055:
		x.edit(func(s *spec) { s.paused = !s.paused })
	case p < .058 && len(c.live()) > 0:
		c.live()[rnd.IntN(len(c.live()))].edited = true
	}
}

// chaos is what a cluster does to pods by itself.
func (x *scenario) chaos() {
	c, rnd := x.c, x.rnd
	for _, u := range sortedKeys(c.pods) {
		p := c.pods[u]
		switch q := rnd.Float64(); {
		case q < .003:
			c.kill(p)
		case q < .006 && p.terminating < 0:
			c.restart(p)
		case q < .008 && p.ready:
			p.flap = 1 + rnd.IntN(8)
		}
	}
	switch q := rnd.Float64(); {
	case q < .004 && len(c.dead) < 2:
		c.dead[rnd.IntN(c.nodes)] = [2]int{c.now, c.now + 8 + rnd.IntN(70)}
	case q < .008:
		c.noEngines = !c.noEngines
	}
}

// heal ends all faults but for a dead node, which every third run keeps; the user corrects what cannot work.
func (x *scenario) heal() {
	c := x.c
	for n, d := range c.dead {
		c.dead[n] = [2]int{d[0], min(d[1], c.now+5)}
		if x.seed%3 == 0 {
			c.dead[n] = [2]int{d[0], 1 << 20}
		}
	}
	c.noEngines = false
	x.o.crash = 0
	x.edit(func(s *spec) {
		s.paused, s.replicas = false, max(1, s.replicas)
		if c.faults[s.target] != healthy {
			x.n++
			s.target = fmt.Sprintf("r%d", x.n)
		}
	})
}

func (x *scenario) run(show bool) []string {
	for t := range simTicks {
		switch {
		case t == x.healAt:
			x.heal()
		case t < x.healAt:
			x.user()
			if !x.calm {
				x.chaos()
			}
		}
		x.c.tick()
		if x.seed%8 == 0 {
			x.determinism()
		}
		before := x.o.writes
		x.o.reconcile()
		x.o.check.tick()
		if t >= simTicks-20 {
			x.atEnd += x.o.writes - before
		}
		if show {
			fmt.Printf("%3d R=%d S=%d U=%d paused=%v target=%s stable=%s %s %s: %s\n", t, x.c.spec.replicas, x.c.spec.surge,
				x.c.spec.unavailable, x.c.spec.paused, x.c.spec.target, x.c.stable, x.o.last.Kind, x.o.last.Note, x.c)
		}
	}
	x.converged()
	return x.o.check.bad
}

// converged asserts I7, I8 and I10 at the end of a run.
func (x *scenario) converged() {
	k, c := x.o.check, x.c
	live := c.live()
	ok := len(live) == c.spec.replicas && (len(c.sets) == len(live) || len(c.dead) > 0) && c.stable == c.spec.target && x.o.last.Reason == rollout.Complete
	for _, s := range live {
		ok = ok && s.revision == c.spec.target && !s.edited && c.proven(s)
	}
	if !ok {
		k.fail("I10 stuck: %s %q: %s", x.o.last.Reason, x.o.last.Note, c)
	}
	if x.atEnd > 0 {
		k.fail("I8 %d writes at rest", x.atEnd)
	}
}

// determinism asserts I13: lists in another order give the same bytes.
func (x *scenario) determinism() {
	w := x.o.world(x.c.view())
	one := encode(rollout.Plan(w, at(x.c.now)))
	w.ReplicaSets, w.Pods = slices.Clone(w.ReplicaSets), slices.Clone(w.Pods)
	x.rnd.Shuffle(len(w.ReplicaSets), func(i, j int) { w.ReplicaSets[i], w.ReplicaSets[j] = w.ReplicaSets[j], w.ReplicaSets[i] })
	x.rnd.Shuffle(len(w.Pods), func(i, j int) { w.Pods[i], w.Pods[j] = w.Pods[j], w.Pods[i] })
	if two := encode(rollout.Plan(w, at(x.c.now))); !bytes.Equal(one, two) {
		x.o.check.fail("I13 the order of the lists changes the plan:\n%s\n%s", one, two)
	}
}

func encode(d rollout.Decision) []byte {
	b, err := json.Marshal(d)
	if err != nil {
		panic(err)
	}
	return b
}

// TestRandomFleetsKeepTheirInvariants runs seeded scenarios for -sim.time. A failure names its seed; show one run
// with -sim.seed N -sim.show.
func TestRandomFleetsKeepTheirInvariants(t *testing.T) {
	limit := *simTime
	if testing.Short() {
		limit = min(limit, time.Second)
	}
	end, runs := time.Now().Add(limit), 0
	for seed := *simSeed; runs < *simRuns && time.Now().Before(end); seed, runs = seed+1, runs+1 {
		if bad := newScenario(seed).run(*simShow); len(bad) > 0 {
			t.Fatalf("seed %d: %d breaches, the first: %s", seed, len(bad), bad[0])
		}
		if *simShow {
			break
		}
	}
	t.Logf("%d runs of %d ticks from seed %d", runs, simTicks, *simSeed)
	if runs < 20 && limit >= time.Second && *simRuns > 20 && !*simShow {
		t.Errorf("only %d runs in %s: the simulation became too slow to find anything", runs, limit)
	}
}
