package rollout

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// view is the world in the planner's order: everything is sorted before anything is chosen.
type view struct {
	World
	now time.Time

	protected string // revision whose replicas the rollout must not spend; empty when there is none
	replicas  []Replica
	slots     []int32 // occupied, ascending
	bySlot    map[int32][]*Replica
	right     map[int32]*Replica
	names     map[slotRevision][]int32 // retry numbers in use, of sets in any state
	wrong     []*Replica               // in the order they should retire
	available int
	room      int // how many more unproven replicas of the target may come into being
}

// slotRevision is what a set's name is made of, but for the retry number.
type slotRevision struct {
	slot     int32
	revision string
}

// unlimited stands for "no limit" in room. It is large, yet far from overflowing when counted down.
const unlimited = 1 << 20

func newView(w World, now time.Time) *view {
	v := &view{World: w, now: now, bySlot: map[int32][]*Replica{}, right: map[int32]*Replica{},
		names: map[slotRevision][]int32{}}
	v.normalise()
	pods := map[types.UID][]*Pod{}
	for i := range v.Pods {
		owner := v.Pods[i].ReplicaSet
		pods[owner] = append(pods[owner], &v.Pods[i])
	}
	for _, rs := range v.ReplicaSets {
		v.names[slotRevision{rs.Slot, rs.Revision}] = append(v.names[slotRevision{rs.Slot, rs.Revision}], rs.Retry)
		if rs.Live() {
			v.replicas = append(v.replicas, judge(v.World, rs, pods[rs.UID], now))
		}
	}
	v.protected = v.protectedRevision()
	v.occupy()
	v.count()
	v.orderWrong()
	return v
}

// normalise copies and sorts the lists, and resolves numbers that may not be what the user wrote.
func (v *view) normalise() {
	v.ReplicaSets = slices.Clone(v.ReplicaSets)
	slices.SortFunc(v.ReplicaSets, func(a, b ReplicaSet) int {
		return cmp.Or(cmp.Compare(a.Slot, b.Slot), strings.Compare(a.Name, b.Name), cmp.Compare(a.UID, b.UID))
	})
	v.Pods = slices.Clone(v.Pods)
	slices.SortFunc(v.Pods, func(a, b Pod) int { return cmp.Compare(a.UID, b.UID) })
	if v.Spec.MaxSurge == 0 && v.Spec.MaxUnavailable == 0 {
		v.Spec.MaxUnavailable = 1
	}
}

// protectedRevision is stable, or while no rollout ever completed the revision other than the target that most Ready
// replicas run: a first boot that is edited half way must not spend what already serves.
func (v *view) protectedRevision() string {
	if v.Stable != "" {
		return v.Stable
	}
	ready, best := map[string]int{}, ""
	for _, r := range v.replicas {
		rev := r.ReplicaSet.Revision
		if !r.Ready || r.ReplicaSet.Drifted || rev == v.Target {
			continue
		}
		ready[rev]++
	}
	for rev, n := range ready {
		if best == "" || n > ready[best] || n == ready[best] && rev < best {
			best = rev
		}
	}
	return best
}

// guarded tells whether the target's growth is limited: replicas of another revision exist, and they must be kept until
// the target is proven. A fleet that comes back from zero has nothing to keep and boots like the first time.
func (v *view) guarded() bool {
	if v.protected == "" || v.protected == v.Target {
		return false
	}
	return slices.ContainsFunc(v.replicas, func(r Replica) bool { return !r.ReplicaSet.Runs(v.Target) })
}

// want is the revision a slot should run. With a partition, the first slots will want the stable one.
func (v *view) want(int32) string { return v.Target }

// occupy fills the slot tables and picks each slot's right replica: the best of the wanted revision, the older on a tie.
func (v *view) occupy() {
	for i := range v.replicas {
		r := &v.replicas[i]
		slot := r.ReplicaSet.Slot
		if len(v.bySlot[slot]) == 0 {
			v.slots = append(v.slots, slot)
		}
		v.bySlot[slot] = append(v.bySlot[slot], r)
		r.Counted = r.Ready
		if r.ReplicaSet.Runs(v.Target) && v.Target != v.protected {
			r.Counted = r.Proven
		}
	}
	for _, slot := range v.slots {
		var best *Replica
		for _, r := range v.bySlot[slot] {
			if r.ReplicaSet.Runs(v.want(slot)) && (best == nil || compareWorth(r, best) > 0) {
				best = r
			}
		}
		if best != nil {
			best.Right, v.right[slot] = true, best
		}
	}
}

func (v *view) count() {
	unproven := 0
	for _, r := range v.replicas {
		if r.Counted {
			v.available++
		}
		if r.ReplicaSet.Runs(v.Target) && !r.Proven {
			unproven++
		}
	}
	v.room = unlimited
	if v.guarded() {
		v.room = max(0, v.Spec.MaxUnproven-unproven)
	}
}

// compareWorth orders replicas by what the fleet would lose: class first, then proof.
func compareWorth(a, b *Replica) int {
	if c := cmp.Compare(a.Class, b.Class); c != 0 {
		return c
	}
	return compareBool(a.Proven, b.Proven)
}

func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	default:
		return 1
	}
}

// orderWrong sorts the wrong replicas by worth; foreign before protected, a slot with two before one alone, one whose
// right replica is proven first, then the high slot.
func (v *view) orderWrong() {
	for i := range v.replicas {
		if r := &v.replicas[i]; !r.Right {
			v.wrong = append(v.wrong, r)
		}
	}
	slices.SortFunc(v.wrong, func(a, b *Replica) int {
		return cmp.Or(
			cmp.Compare(a.Class, b.Class),
			compareBool(a.ReplicaSet.Runs(v.protected), b.ReplicaSet.Runs(v.protected)),
			compareBool(len(v.bySlot[a.ReplicaSet.Slot]) == 1, len(v.bySlot[b.ReplicaSet.Slot]) == 1),
			compareBool(!v.succeeded(a), !v.succeeded(b)),
			cmp.Compare(b.ReplicaSet.Slot, a.ReplicaSet.Slot),
			strings.Compare(a.ReplicaSet.Name, b.ReplicaSet.Name),
		)
	})
}

// succeeded tells whether the slot of a wrong replica has a right one that counts.
func (v *view) succeeded(r *Replica) bool {
	right := v.right[r.ReplicaSet.Slot]
	return right != nil && right.Counted
}

// isQuota recognises the API server's words for an exhausted ResourceQuota.
func isQuota(message string) bool {
	return strings.Contains(message, "exceeded quota") || strings.Contains(message, "failed quota")
}
