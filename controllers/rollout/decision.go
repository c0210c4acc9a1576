package rollout

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Kind is what a decision asks for. A decision does one kind of thing; Delete may come beside any.
type Kind string

// The kinds of decisions.
const (
	None   Kind = "None"
	Create Kind = "Create"
	Retire Kind = "Retire"
	// Read asks for answers younger than the plan may rest on; the action is then decided anew. A gate that asks
	// nothing of the answers never decides it.
	Read Kind = "Read"
)

// Reason says in one word where the rollout stands. It is the planner's vocabulary; conditions map it to theirs.
type Reason string

// The reasons, in the order of the steps that give them.
const (
	ScaleIn             Reason = "ScaleIn"
	Fill                Reason = "Fill"
	Paused              Reason = "Paused"
	Complete            Reason = "Complete"
	Retiring            Reason = "Retiring"
	Surging             Reason = "Surging"
	Held                Reason = "Held"
	WaitingForBootstrap Reason = "WaitingForBootstrap" // a replica that should count is not Ready yet
	WaitingForMinReady  Reason = "WaitingForMinReady"  // Ready, but not for long enough
	WaitingForDrain     Reason = "WaitingForDrain"     // maxTerminating pods are in their grace period
)

// Decision is one absolute step: named objects, never "one more". Two decisions of the same world are byte-identical.
type Decision struct {
	Kind   Kind
	Reason Reason
	Note   string // one sentence for a human; no pod names, times or counters that move at rest

	Create []Creation
	Retire []Retirement
	Delete []Deletion

	// Kept says of each wrong replica that stays why it may not retire now.
	Kept []Kept
	// Replicas are the live replicas as the plan judged them, by slot and name.
	Replicas []Replica

	// MarkStable is the revision that now fills the whole fleet, proven, and is to be recorded as stable; empty when
	// there is nothing to record. A fleet of zero proves nothing.
	MarkStable string

	// Active tells that a rollout is going on: the fleet does not run the target alone, or never was complete.
	Active bool
	// DeadlineExceeded tells that an active, unpaused rollout made no progress for Spec.ProgressDeadline.
	DeadlineExceeded bool

	// RequeueAfter is when the world may look different although nothing in it changed; 0 means never.
	RequeueAfter time.Duration
}

// Creation names a ReplicaSet to create. Retry distinguishes it from retired sets of the same slot and revision.
type Creation struct {
	Slot     int32
	Revision string
	Retry    int32
	Note     string
}

// Retirement names a live ReplicaSet to retire: one merge patch of replicas 0, guarded by uid and resourceVersion.
type Retirement struct {
	Name            string
	UID             types.UID
	ResourceVersion string
	Slot            int32
	Revision        string
	Note            string
}

// Deletion names a retired ReplicaSet that no pod names as its controller any more.
type Deletion struct {
	Name string
	UID  types.UID
	Note string
}

// Kept is a wrong replica that the gate did not let go.
type Kept struct {
	Name string
	Why  string
}

// Writes tells whether carrying the decision out changes any object.
func (d Decision) Writes() bool { return d.Kind == Create || d.Kind == Retire || len(d.Delete) > 0 }

// SameWrites tells whether two decisions change the same objects in the same way for the same reason. It is asked of
// the plan from the cache and the plan from a fresh list. ResourceVersions are left out: the fresh one is the guard
// that is sent, and a status update between the two reads changes no decision.
func (d Decision) SameWrites(o Decision) bool {
	if d.Kind != o.Kind || d.Reason != o.Reason || d.MarkStable != o.MarkStable || len(d.Create) != len(o.Create) ||
		len(d.Retire) != len(o.Retire) || len(d.Delete) != len(o.Delete) {
		return false
	}
	for i, c := range d.Create {
		if o.Create[i].Slot != c.Slot || o.Create[i].Revision != c.Revision || o.Create[i].Retry != c.Retry {
			return false
		}
	}
	for i, r := range d.Retire {
		if o.Retire[i].UID != r.UID {
			return false
		}
	}
	for i, x := range d.Delete {
		if o.Delete[i].UID != x.UID {
			return false
		}
	}
	return true
}
