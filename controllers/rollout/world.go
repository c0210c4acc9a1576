package rollout

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/routerfleet/routerfleet/router/bootstrap/status"
)

// World is everything a plan depends on, as seen at one instant. Lists may come in any order.
type World struct {
	Spec Spec

	// Target is the revision the spec asks for; Stable the last one that filled the whole fleet, empty before any did.
	Target, Stable string

	// LastProgress is when the running rollout last got further. Zero means unknown: its deadline starts now.
	LastProgress time.Time

	// ReplicaSets are those the fleet controls: live, retired and being deleted.
	ReplicaSets []ReplicaSet
	// Pods are those controlled by one of ReplicaSets. Labels do not count: ghosts and orphans carry them too.
	Pods []Pod
	// Answers of the routers, by the container that gave them: a restarted container has not answered yet.
	Answers map[Container]Answer
}

// Spec is the numeric part of a fleet's spec with its defaults resolved.
type Spec struct {
	Replicas       int // R
	MaxSurge       int // S
	MaxUnavailable int // U; at least 1 is assumed when S is 0, or nothing could ever move
	MaxUnproven    int // replicas of the target that may exist without having passed the gate
	MaxTerminating int // pods in their grace period that stop further retirements of a rollout

	MinReady         time.Duration
	ProgressDeadline time.Duration // 0 means none

	Paused bool
}

// ReplicaSet is one slot's set of one pod.
type ReplicaSet struct {
	Name            string
	UID             types.UID
	ResourceVersion string

	Slot     int32
	Revision string
	Retry    int32 // > 0 when the plain name was still taken by a retired set

	Image string // of the router, as the set asks for it; for messages, may be empty

	Replicas int32 // spec.replicas; 0 is the durable mark "retired"
	Deleting bool

	// Drifted tells that somebody changed the pod template since the set was created: its next pod would run something
	// that is in no revision. Such a set is replaced like one of another revision.
	Drifted bool

	// CreateFailure is the message of its ReplicaFailure condition: why its pod could not be created.
	CreateFailure string
}

// Live tells whether the set occupies its slot.
func (r *ReplicaSet) Live() bool { return r.Replicas > 0 && !r.Deleting }

// Retired tells whether the set carries the durable mark and waits for its pods to end.
func (r *ReplicaSet) Retired() bool { return r.Replicas == 0 && !r.Deleting }

// Runs tells whether the set's pods run the revision.
func (r *ReplicaSet) Runs(revision string) bool { return r.Revision == revision && !r.Drifted }

// Pod is one pod of one of the fleet's ReplicaSets.
type Pod struct {
	UID        types.UID
	Name       string
	ReplicaSet types.UID
	Created    time.Time

	Done        bool // phase Failed or Succeeded: its ReplicaSet replaces it
	Terminating bool
	GraceEnd    time.Time // when a terminating pod should be gone; past it nobody waits for it (dead node)

	Ready      bool
	ReadySince time.Time

	Container Container
	Running   bool
	Restarts  int32
	LastCrash time.Time // end of the last run that failed; zero if none did

	Waiting            string // reason of a waiting container, for example ImagePullBackOff
	Unschedulable      bool   // the scheduler found no node
	UnschedulableSince time.Time
}

// Container is one life of a pod's router. The id changes when the kubelet restarts it.
type Container struct {
	Pod types.UID
	ID  string
}

// Answer is what is known of a container's /internal/bootstrap.
type Answer struct {
	Status *status.Status // the last answer of this container; nil if it never gave one
	ReadAt time.Time      // when Status was read

	// SilentSince is when the reads began to fail; zero while they succeed. A failed read erases no answer.
	SilentSince time.Time
}
