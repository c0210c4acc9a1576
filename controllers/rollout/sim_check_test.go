package rollout_test

import (
	"fmt"

	"github.com/routerfleet/routerfleet/controllers/rollout"
)

// checker asserts the invariants against the truth, at every write and every tick.
type checker struct {
	c     *cluster
	bad   []string
	floor int // replicas that were ready and still must be; only kept in runs where nothing but the operator moves
	calm  bool
}

func (k *checker) fail(format string, args ...any) {
	k.bad = append(k.bad, fmt.Sprintf("t=%d ", k.c.now)+fmt.Sprintf(format, args...))
}

// before looks at a decision as a whole.
func (k *checker) before(d rollout.Decision) {
	if len(d.Create) > 0 && len(d.Retire) > 0 {
		k.fail("one decision both creates and retires: %+v", d)
	}
	if d.Kind == rollout.Retire && k.c.spec.paused && d.Reason != rollout.ScaleIn {
		k.fail("I6 pause: retires while paused (%s)", d.Reason)
	}
}

// created is asked right after a creation took effect.
func (k *checker) created(d rollout.Decision, x rollout.Creation) {
	c := k.c
	live, slots, unproven, others := c.live(), map[int32]int{}, 0, false
	for _, s := range live {
		slots[s.slot]++
		others = others || s.revision != c.spec.target || s.edited
		if s.revision == c.spec.target && !s.edited && !c.proven(s) {
			unproven++
		}
	}
	if len(live) > c.spec.replicas+c.spec.surge && len(slots) <= c.spec.replicas {
		k.fail("I3 size: %d live with R=%d S=%d", len(live), c.spec.replicas, c.spec.surge)
	}
	guarded := others && c.stable != "" && c.stable != c.spec.target
	if guarded && x.Revision == c.spec.target && unproven > c.spec.unproven {
		k.fail("I4 blast radius: %d unproven replicas of %s", unproven, x.Revision)
	}
	if guarded && c.spec.paused && (d.Reason != rollout.Fill || x.Revision == c.spec.target) {
		k.fail("I6 pause: %s creates %s while paused", d.Reason, x.Revision)
	}
	if slots[x.Slot] > 1+c.spec.surge {
		k.fail("slot %d has %d live sets", x.Slot, slots[x.Slot])
	}
}

// retiring is asked right before a retirement is sent. A stale guard makes it void.
func (k *checker) retiring(d rollout.Decision, x rollout.Retirement) {
	c := k.c
	s := c.sets[string(x.UID)]
	if s == nil || fmt.Sprint(s.rv) != x.ResourceVersion {
		return
	}
	if s.replicas == 0 {
		k.fail("%s retires twice", s.name)
	}
	p := c.podOf(s)
	if p == nil || !p.ready {
		return
	}
	need := c.spec.replicas - c.spec.unavailable
	if d.Reason == rollout.ScaleIn {
		need = 0
		for _, o := range c.live() {
			op := c.podOf(o)
			if o.slot != s.slot && (op == nil || !op.ready) && len(k.inSlot(o.slot)) == 1 && !k.retires(d, o) {
				k.fail("scale-in takes ready %s and leaves unready %s", s.name, o.name)
			}
		}
	}
	if left := c.readyCount() - 1; left < need {
		k.fail("I2 availability: %s leaves %d ready of %d (%s)", s.name, left, need, d.Reason)
	}
}

func (k *checker) inSlot(slot int32) []*set {
	var out []*set
	for _, s := range k.c.live() {
		if s.slot == slot {
			out = append(out, s)
		}
	}
	return out
}

func (k *checker) retires(d rollout.Decision, s *set) bool {
	for _, r := range d.Retire {
		if string(r.UID) == s.uid {
			return true
		}
	}
	return false
}

// told is asked when the operator says Complete.
func (k *checker) told(d rollout.Decision, planned spec) {
	if planned != k.c.spec {
		return // it says so for an older generation, which observedGeneration tells
	}
	live := k.c.live()
	if len(live) != k.c.spec.replicas {
		k.fail("I12 told complete with %d live of %d", len(live), k.c.spec.replicas)
	}
	for _, s := range live {
		if s.revision != k.c.spec.target || s.edited || !k.c.proven(s) {
			k.fail("I12 told complete with %s", s.name)
		}
	}
}

// tick is asked after every second.
func (k *checker) tick() {
	for _, p := range k.c.pods {
		if k.c.sets[p.set] == nil {
			k.fail("a pod of %s lost its controller: evictions of the whole fleet are blocked", p.set)
		}
	}
	if !k.calm {
		return
	}
	ready := k.c.readyCount()
	k.floor = min(k.floor, k.c.spec.replicas)
	if ready < k.floor {
		k.fail("availability: %d ready, %d were and are wanted", ready, k.floor)
	}
	k.floor = min(ready, k.c.spec.replicas)
}
