package rollout

import (
	"time"

	"github.com/routerfleet/routerfleet/router/bootstrap/status"
)

const (
	// silentLimit is how long an unready, running router may leave its status endpoint silent before it counts as
	// failed (rollout vocabulary: unreachable). Until then it may hold what nobody else does.
	silentLimit = 300 * time.Second

	// crashMemory is how long an unready container that crashed repeatedly is called crash-looping between its
	// crashes. The kubelet resets its back-off after ten minutes without a crash; sooner, the class would flap.
	crashMemory = 10 * time.Minute

	// schedulingPatience is how long a pod may find no node before that is a failure: a predecessor that drains
	// holds its share of a node for preStop and linger (15 s at the defaults), an autoscaler needs about a minute.
	schedulingPatience = 60 * time.Second

	// crashRepeats is the number of restarts from which a crash is a loop: one crash is an accident.
	crashRepeats = 2
)

// Class says what a replica is good for now, never how it came to be so. The order is its worth: when slots must go,
// the least goes first. The classes of warmth join between unreachable and ready.
type Class int

// The classes, worst first.
const (
	ClassFailed      Class = iota // will not become Ready without help, or is silent for silentLimit
	ClassBoot                     // has no pod, no running container, or answers that it is not settled yet
	ClassUnready                  // settled, but not Ready now
	ClassUnreachable              // runs unready and does not answer: unknown, and unknown opens no gate
	ClassReady
)

// String gives the class's name in lower case.
func (c Class) String() string {
	switch c {
	case ClassFailed:
		return "failed"
	case ClassBoot:
		return "boot"
	case ClassUnready:
		return "unready"
	case ClassUnreachable:
		return "unreachable"
	case ClassReady:
		return "ready"
	default:
		return "unknown"
	}
}

// MarshalText writes the class by name wherever decisions are printed.
func (c Class) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

// Failure is the closed list of why a replica is ClassFailed.
type Failure string

// The failures. NotFailed is the zero value.
const (
	NotFailed        Failure = ""
	ImagePullFailed  Failure = "ImagePullFailed"
	CrashLooping     Failure = "CrashLooping"
	ContainerInvalid Failure = "ContainerInvalid" // the kubelet cannot create the container from its spec
	Unschedulable    Failure = "Unschedulable"
	QuotaExceeded    Failure = "QuotaExceeded"
	PodRefused       Failure = "PodRefused" // the API server refuses the pod for another reason than quota
	PodEnded         Failure = "PodEnded"   // phase Failed or Succeeded, and no replacement yet
	Silent           Failure = "Silent"
)

// Replica is a live ReplicaSet with its pod, judged.
type Replica struct {
	ReplicaSet ReplicaSet
	Pod        *Pod // nil while none is known

	Class   Class
	Failure Failure
	Ready   bool
	Proven  bool
	Counted bool // towards availability
	Right   bool // the replica its slot wants
}

// judge classifies the replica of one live set with its pods.
func judge(w World, rs ReplicaSet, pods []*Pod, now time.Time) Replica {
	r := Replica{ReplicaSet: rs, Pod: youngest(pods)}
	r.Class, r.Failure = classify(w, r, now)
	r.Ready = r.Class == ClassReady
	r.Proven = r.Ready && now.Sub(r.Pod.ReadySince) >= w.Spec.MinReady
	return r
}

// youngest gives the pod of a set that stands for its slot: the youngest not terminating, one that still may run
// before one that has ended.
func youngest(pods []*Pod) *Pod {
	var best *Pod
	for _, p := range pods {
		if !p.Terminating && (best == nil || younger(p, best)) {
			best = p
		}
	}
	return best
}

func younger(a, b *Pod) bool {
	if a.Done != b.Done {
		return b.Done
	}
	if !a.Created.Equal(b.Created) {
		return a.Created.After(b.Created)
	}
	return a.UID > b.UID
}

// classify follows this list, the first that holds:
//
//  1. no pod: failed if its creation was refused, else boot
//  2. the pod ended: failed
//  3. Ready: ready
//  4. cannot start (image, container spec, scheduling) or crashes again and again: failed
//  5. answers: unready when settled, boot before
//  6. runs and is silent: unreachable, after silentLimit failed
//  7. not running yet: boot
func classify(w World, r Replica, now time.Time) (Class, Failure) {
	p := r.Pod
	if p == nil {
		return classifyPodless(r.ReplicaSet)
	}
	if p.Done {
		return ClassFailed, PodEnded
	}
	if p.Ready {
		return ClassReady, NotFailed
	}
	if f := failure(p, now); f != NotFailed {
		return ClassFailed, f
	}
	answer := w.Answers[p.Container]
	switch {
	case answer.Status != nil && answer.Status.State == status.StateSettled:
		return ClassUnready, NotFailed
	case answer.Status != nil || !p.Running:
		return ClassBoot, NotFailed
	case !answer.SilentSince.IsZero() && now.Sub(answer.SilentSince) >= silentLimit:
		return ClassFailed, Silent
	default:
		return ClassUnreachable, NotFailed
	}
}

func classifyPodless(rs ReplicaSet) (Class, Failure) {
	switch {
	case rs.CreateFailure == "":
		return ClassBoot, NotFailed
	case isQuota(rs.CreateFailure):
		return ClassFailed, QuotaExceeded
	default:
		return ClassFailed, PodRefused
	}
}

// failure reads why a pod that is not Ready will not become so by itself.
func failure(p *Pod, now time.Time) Failure {
	if p.Unschedulable && now.Sub(p.UnschedulableSince) >= schedulingPatience {
		return Unschedulable
	}
	switch p.Waiting {
	case "ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "ImageInspectError",
		"RegistryUnavailable", "SignatureValidationFailed":
		return ImagePullFailed
	case "CreateContainerConfigError", "CreateContainerError":
		return ContainerInvalid
	case "CrashLoopBackOff", "RunContainerError", "StartError", "PostStartHookError":
		return CrashLooping
	}
	if crashedRecently(p, now) {
		return CrashLooping
	}
	return NotFailed
}

func crashedRecently(p *Pod, now time.Time) bool {
	return p.Restarts >= crashRepeats && !p.LastCrash.IsZero() && now.Sub(p.LastCrash) < crashMemory
}
