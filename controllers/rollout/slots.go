package rollout

import (
	"cmp"
	"fmt"
	"slices"
)

// scaleIn is step 1: whole slots are freed, the least worth first. It follows what the user asked for, so neither a
// pause nor a budget stops it.
func (v *view) scaleIn() (Decision, bool) {
	surplus := len(v.slots) - v.Spec.Replicas
	if surplus <= 0 {
		return Decision{}, false
	}
	d := Decision{Kind: Retire, Reason: ScaleIn, Note: fmt.Sprintf("scale in to %d", v.Spec.Replicas)}
	doomed := v.leastWorth()[:surplus]
	slices.Sort(doomed)
	for _, slot := range doomed {
		for _, r := range v.bySlot[slot] {
			d.Retire = append(d.Retire, retirement(r, fmt.Sprintf("slot %d is freed: scale in to %d", slot, v.Spec.Replicas)))
		}
	}
	return d, true
}

// leastWorth orders the occupied slots by the worth of their best replica, then without the target before with it,
// then high numbers first.
func (v *view) leastWorth() []int32 {
	best := func(slot int32) *Replica {
		return slices.MaxFunc(v.bySlot[slot], compareWorth)
	}
	hasTarget := func(slot int32) bool {
		return slices.ContainsFunc(v.bySlot[slot], func(r *Replica) bool { return r.ReplicaSet.Runs(v.Target) })
	}
	out := slices.Clone(v.slots)
	slices.SortFunc(out, func(a, b int32) int {
		return cmp.Or(compareWorth(best(a), best(b)), compareBool(hasTarget(a), hasTarget(b)), cmp.Compare(b, a))
	})
	return out
}

// fill is steps 2 and 3: empty slots get a replica while the whole stays within R+S. Neither a pause nor a held
// rollout stops it; where the target may not grow now, the protected revision takes the slot.
func (v *view) fill() (Decision, bool) {
	d := Decision{Kind: Create, Reason: Fill}
	size, room := len(v.replicas), v.room
	for _, slot := range v.emptySlots() {
		if size >= v.Spec.Replicas+v.Spec.MaxSurge {
			break
		}
		size++
		revision := v.want(slot)
		if v.guarded() && (v.Spec.Paused || room <= 0) {
			revision = v.protected
		} else if revision == v.Target {
			room--
		}
		d.Create = append(d.Create, v.creation(slot, revision, "the slot is empty"))
	}
	d.Note = headline(d.Create, "empty slots are filled")
	return d, len(d.Create) > 0
}

// emptySlots are the lowest free numbers that bring the slot set up to R.
func (v *view) emptySlots() []int32 {
	var out []int32
	for slot := int32(0); len(v.slots)+len(out) < v.Spec.Replicas; slot++ {
		if len(v.bySlot[slot]) == 0 {
			out = append(out, slot)
		}
	}
	return out
}

// surge is step 6: a successor beside the next victims, one a slot.
func (v *view) surge() (Decision, bool) {
	d := Decision{Kind: Create, Reason: Surging}
	extra, room := len(v.replicas)-len(v.slots), v.room
	chosen := map[int32]bool{}
	for _, r := range v.wrong {
		slot := r.ReplicaSet.Slot
		if v.right[slot] != nil || chosen[slot] {
			continue
		}
		if extra >= v.Spec.MaxSurge || room <= 0 {
			break
		}
		extra, room, chosen[slot] = extra+1, room-1, true
		d.Create = append(d.Create, v.creation(slot, v.want(slot), "successor of "+r.ReplicaSet.Name))
	}
	d.Note = headline(d.Create, "successors are surged")
	return d, len(d.Create) > 0
}

// headline is the note of the only creation, or how many there are.
func headline(creations []Creation, what string) string {
	if len(creations) == 1 {
		return creations[0].Note
	}
	return fmt.Sprintf("%d %s", len(creations), what)
}

// creation names a new set. A name that any existing set still has, retired or being deleted, is never used again:
// the retry number goes up instead.
func (v *view) creation(slot int32, revision, note string) Creation {
	retry := int32(0)
	for slices.Contains(v.names[slotRevision{slot, revision}], retry) {
		retry++
	}
	return Creation{Slot: slot, Revision: revision, Retry: retry, Note: fmt.Sprintf("slot %d: %s", slot, note)}
}

func retirement(r *Replica, note string) Retirement {
	rs := r.ReplicaSet
	return Retirement{Name: rs.Name, UID: rs.UID, ResourceVersion: rs.ResourceVersion, Slot: rs.Slot, Revision: rs.Revision, Note: note}
}
