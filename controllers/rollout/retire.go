package rollout

import "fmt"

// round is the state of one pass over the wrong replicas: what would be left if the victims so far were gone.
type round struct {
	*view
	left      map[int32]int // live replicas a slot would still have
	leaving   map[string]bool
	available int
	occupied  int // slots that would still have a replica
	room      int
	budget    int
}

// check is one reason why a replica may have to stay. why is for a human.
type check func(*round, *Replica) (why string, ok bool)

// freeGate is asked of every victim, retireGate also of those that are worth something. The first that refuses gives
// the note. The checks of warmth (not the last warm copy, fresh eyes) join retireGate.
var (
	freeGate   = []check{withinBudget, slotCanBeFilled}
	retireGate = []check{mayEmptySlot, hasAnswered, slotSucceeded, keepsAvailable}
)

func (v *view) newRound() *round {
	r := &round{view: v, left: map[int32]int{}, leaving: map[string]bool{}, available: v.available, room: v.room,
		occupied: len(v.slots)}
	for slot, replicas := range v.bySlot {
		r.left[slot] = len(replicas)
	}
	r.budget = v.Spec.MaxTerminating - v.terminating()
	return r
}

// retire is step 5. The wrong replicas are asked in order, each in the light of those that already go.
func (v *view) retire() (Decision, bool) {
	d := Decision{Kind: Retire, Reason: Retiring}
	r := v.newRound()
	for _, victim := range v.wrong {
		why, ok := r.mayRetire(victim)
		if !ok {
			d.Kept = append(d.Kept, Kept{Name: victim.ReplicaSet.Name, Why: why})
			continue
		}
		d.Retire = append(d.Retire, retirement(victim, r.farewell(victim)))
		r.remove(victim)
	}
	d.Note = fmt.Sprintf("%d replicas of other revisions retire", len(d.Retire))
	if len(d.Retire) == 1 {
		d.Note = d.Retire[0].Name + " retires: " + d.Retire[0].Note
	}
	return d, len(d.Retire) > 0
}

// kept explains for every wrong replica why it stays.
func (v *view) kept() []Kept {
	d, _ := v.retire()
	return d.Kept
}

func (r *round) mayRetire(x *Replica) (string, bool) {
	for _, c := range freeGate {
		if why, ok := c(r, x); !ok {
			return why, false
		}
	}
	if r.free(x) {
		return "", true
	}
	for _, c := range retireGate {
		if why, ok := c(r, x); !ok {
			return why, false
		}
	}
	return "", true
}

// remove takes a victim out of what is left.
func (r *round) remove(x *Replica) {
	slot := x.ReplicaSet.Slot
	if r.alone(x) {
		r.room--
		r.occupied--
	}
	r.left[slot]--
	r.budget--
	r.leaving[x.ReplicaSet.Name] = true
	if x.Counted {
		r.available--
	}
}

// alone tells whether the victim is the last of its slot, so that retiring it empties the slot.
func (r *round) alone(x *Replica) bool { return r.left[x.ReplicaSet.Slot] == 1 }

// free tells whether nothing is lost with a replica: it is not Ready, and it failed, or boots, or belongs to a
// revision that is neither protected nor wanted (a superseded successor that never served). An unready replica of the
// protected revision that is settled or silent is not free: it may be back in a second with all it holds.
func (r *round) free(x *Replica) bool {
	if x.Ready {
		return false
	}
	foreign := !x.ReplicaSet.Runs(r.protected) && !x.ReplicaSet.Runs(r.Target)
	return x.Class == ClassFailed || x.Class == ClassBoot || foreign
}

func withinBudget(r *round, _ *Replica) (string, bool) {
	return fmt.Sprintf("%d pods may drain at once", r.Spec.MaxTerminating), r.budget > 0
}

// slotCanBeFilled: a slot is emptied only if its next replica may be created at once.
func slotCanBeFilled(r *round, x *Replica) (string, bool) {
	if !r.alone(x) || !r.guarded() || r.want(x.ReplicaSet.Slot) != r.Target {
		return "", true
	}
	return fmt.Sprintf("its slot could not be filled: %d unproven replicas of %s are the limit", r.Spec.MaxUnproven, r.Target), r.room > 0
}

// mayEmptySlot: a serving replica without successor goes only where maxUnavailable allows it.
func mayEmptySlot(r *round, x *Replica) (string, bool) {
	if !r.alone(x) {
		return "", true
	}
	extra := len(r.replicas) - len(r.slots)
	ok := r.Spec.MaxUnavailable > 0 && r.occupied-1 >= r.Spec.Replicas-r.Spec.MaxUnavailable && extra <= r.Spec.MaxSurge
	return "it has no successor yet", ok
}

func hasAnswered(_ *round, x *Replica) (string, bool) {
	return fmt.Sprintf("it runs, is not ready and does not answer: unknown for %s", silentLimit), x.Class != ClassUnreachable
}

// slotSucceeded: a slot's right replica must count first. Where a slot holds two of other revisions only, one Ready
// replica must stay.
func slotSucceeded(r *round, x *Replica) (string, bool) {
	slot := x.ReplicaSet.Slot
	if r.alone(x) {
		return "", true
	}
	if right := r.right[slot]; right != nil {
		return right.ReplicaSet.Name + " must prove itself first", right.Counted
	}
	for _, y := range r.bySlot[slot] {
		if y != x && y.Ready && !r.leaving[y.ReplicaSet.Name] {
			return "", true
		}
	}
	return "no other replica of its slot is ready", false
}

func keepsAvailable(r *round, x *Replica) (string, bool) {
	need := r.Spec.Replicas - r.Spec.MaxUnavailable
	return fmt.Sprintf("%d available replicas are needed", need), !x.Counted || r.available-1 >= need
}

// farewell is the note of a retirement.
func (r *round) farewell(x *Replica) string {
	slot := x.ReplicaSet.Slot
	switch right := r.right[slot]; {
	case right != nil && right.Counted:
		return fmt.Sprintf("slot %d: %s is proven", slot, right.ReplicaSet.Name)
	case x.Class == ClassFailed:
		return fmt.Sprintf("slot %d: %s", slot, x.Failure.sentence(*x))
	case !x.Ready:
		return fmt.Sprintf("slot %d: it is not ready and %s is wanted", slot, r.want(slot))
	case x.ReplicaSet.Drifted:
		return fmt.Sprintf("slot %d: its pod template was edited", slot)
	default:
		return fmt.Sprintf("slot %d: it runs another revision than %s", slot, r.want(slot))
	}
}

// terminating counts pods in their grace period. Those past it hang on a dead node: nobody waits for them.
func (v *view) terminating() int {
	n := 0
	for _, p := range v.Pods {
		if p.Terminating && v.now.Before(p.GraceEnd) {
			n++
		}
	}
	return n
}
