package rollout_test

import (
	"math/rand/v2"
	"time"

	"github.com/routerfleet/routerfleet/controllers/rollout"
)

// operator plays observe, plan, apply around the planner, with an old cache and a habit of dying between writes.
type operator struct {
	c       *cluster
	check   *checker
	rnd     *rand.Rand
	crash   float64 // chance to die after any single write
	lag     int     // the cache is up to this many ticks old
	dieAt   int     // number of the write after which it dies once; 0 never
	down    int
	writes  int
	answers map[rollout.Container]rollout.Answer
	last    rollout.Decision
	lastGen int
	late    bool

	lastProgress int
	score        int
	// planner is rollout.Plan, or a mutant of it; the two flags are mutants of what stands around it.
	planner        func(rollout.World, time.Time) rollout.Decision
	noFreshList    bool
	deleteToRetire bool
}

func newOperator(c *cluster, seed uint64) *operator {
	return &operator{c: c, rnd: rand.New(rand.NewPCG(seed, 11)), answers: map[rollout.Container]rollout.Answer{},
		planner: rollout.Plan, check: &checker{c: c}}
}

func (o *operator) world(v view) rollout.World {
	return rollout.World{
		Spec: rollout.Spec{
			Replicas: v.spec.replicas, MaxSurge: v.spec.surge, MaxUnavailable: v.spec.unavailable,
			MaxUnproven: v.spec.unproven, MaxTerminating: max(1, v.spec.replicas), Paused: v.spec.paused,
			MinReady: minReadyTicks * time.Second, ProgressDeadline: deadlineTicks * time.Second,
		},
		Target: v.spec.target, Stable: v.stable, LastProgress: at(o.lastProgress),
		ReplicaSets: v.sets, Pods: v.pods, Answers: o.answers,
	}
}

// poll is the prober: one read of every pod that the cache shows.
func (o *operator) poll(v view) {
	for _, p := range v.pods {
		truth := o.c.pods[string(p.UID)]
		if truth == nil {
			continue
		}
		key := o.c.container(truth)
		a := o.answers[key]
		if s := o.c.read(truth); s != nil {
			a = rollout.Answer{Status: s, ReadAt: at(o.c.now)}
		} else if a.SilentSince.IsZero() {
			a.SilentSince = at(o.c.now)
		}
		o.answers[key] = a
	}
}

// reconcile is the reconciler's order of things: plan on the cache, look with fresh eyes, plan again, write.
func (o *operator) reconcile() {
	if o.down > 0 {
		o.down--
		return
	}
	cached := o.c.past[len(o.c.past)-1-min(o.lag, len(o.c.past)-1)]
	if o.lag > 0 {
		cached = o.c.past[len(o.c.past)-1-o.rnd.IntN(min(o.lag, len(o.c.past)))]
	}
	o.poll(cached)
	now := at(o.c.now)
	d := o.planner(o.world(cached), now)
	completes := d.Reason == rollout.Complete
	if !o.noFreshList && (d.Writes() || completes) {
		fresh := o.world(o.c.view())
		again := o.planner(fresh, now)
		if !again.SameWrites(d) {
			return
		}
		d = again
	}
	o.last, o.lastGen, o.late = d, cached.spec.generation, d.DeadlineExceeded
	o.write(d)
	o.progress()
	if completes && o.down == 0 {
		o.check.told(d, cached.spec)
		if d.MarkStable != "" {
			o.c.stable = d.MarkStable
			o.wrote()
		}
	}
}

func (o *operator) write(d rollout.Decision) {
	o.check.before(d)
	for _, x := range d.Create {
		if o.down > 0 {
			return
		}
		if o.c.create(x.Slot, x.Revision, x.Retry) {
			o.check.created(d, x)
			o.wrote()
		} else {
			o.check.fail("a name is created twice: %s", setName(x.Slot, x.Revision, x.Retry))
		}
	}
	for _, x := range d.Retire {
		if o.down > 0 {
			return
		}
		o.check.retiring(d, x)
		if o.deleteToRetire {
			o.c.deleteSet(string(x.UID))
			o.wrote()
		} else if o.c.scaleToZero(string(x.UID), x.ResourceVersion) {
			o.wrote()
		}
	}
	for _, x := range d.Delete {
		if o.down > 0 {
			return
		}
		o.c.deleteSet(string(x.UID))
		o.wrote()
	}
}

// wrote counts a write and may kill the operator right after it. Its memory dies with it.
func (o *operator) wrote() {
	o.writes++
	if o.writes == o.dieAt || o.rnd.Float64() < o.crash {
		o.down = 1 + o.rnd.IntN(6)
		o.answers = map[rollout.Container]rollout.Answer{}
	}
}

// progress keeps the time of the last progress the way status does: it moves when the target gains ground.
func (o *operator) progress() {
	score := 0
	for _, s := range o.c.live() {
		if s.revision == o.c.spec.target {
			score++
			if o.c.proven(s) {
				score += 100
			}
		}
	}
	if score > o.score || o.last.Kind == rollout.Retire {
		o.lastProgress = o.c.now
	}
	o.score = score
}
