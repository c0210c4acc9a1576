package controllers

import (
	"encoding/json"
	"regexp"
	"strconv"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/routerfleet/routerfleet/api/v1alpha1"
	"github.com/routerfleet/routerfleet/controllers/children"
	"github.com/routerfleet/routerfleet/controllers/rollout"
)

// The rollout's budgets that no field of the spec names yet.
const (
	maxSurge       = 1
	maxUnavailable = 0
	maxUnproven    = 1
)

// world translates an observation into the planner's terms.
func (o *observation) world(target string) rollout.World {
	spec := o.fleet.Spec
	replicas := int(*spec.Replicas)
	w := rollout.World{
		Spec: rollout.Spec{
			Replicas: replicas, MaxSurge: maxSurge, MaxUnavailable: maxUnavailable, MaxUnproven: maxUnproven,
			MaxTerminating:   max(1, replicas),
			MinReady:         time.Duration(*spec.Rollout.MinReadySeconds) * time.Second,
			ProgressDeadline: time.Duration(spec.Rollout.ProgressDeadlineSeconds) * time.Second,
			Paused:           spec.Rollout.State == v1alpha1.RolloutPaused,
		},
		Target: target, Stable: o.stable(), LastProgress: o.lastProgress(target), Answers: o.answers,
	}
	for i := range o.sets {
		if rs, ok := o.setView(&o.sets[i]); ok {
			w.ReplicaSets = append(w.ReplicaSets, rs)
		}
	}
	for i := range o.pods {
		w.Pods = append(w.Pods, podView(&o.pods[i]))
	}
	return w
}

// lastProgress is when the rollout to target last got further, zero when a new clock starts: for a new target, after a
// pause, and when the status was lost.
func (o *observation) lastProgress(target string) time.Time {
	p := o.previous
	if p.UpdateRevision != target || p.Rollout == nil || p.Rollout.LastProgressTime == nil || wasPaused(p) {
		return time.Time{}
	}
	return p.Rollout.LastProgressTime.Time
}

// setView is false for a ReplicaSet of ours whose labels make no sense: somebody edited them, and the plan must not
// guess. Its pods are not counted.
func (o *observation) setView(rs *appsv1.ReplicaSet) (rollout.ReplicaSet, bool) {
	slot, err := strconv.ParseInt(rs.Labels[v1alpha1.LabelSlot], 10, 32)
	if err != nil || slot < 0 {
		return rollout.ReplicaSet{}, false
	}
	retry, err := strconv.ParseInt(rs.Labels[v1alpha1.LabelRetry], 10, 32)
	if err != nil && rs.Labels[v1alpha1.LabelRetry] != "" {
		return rollout.ReplicaSet{}, false
	}
	view := rollout.ReplicaSet{
		Name: rs.Name, UID: rs.UID, ResourceVersion: rs.ResourceVersion,
		Slot: int32(slot), Retry: int32(retry), Revision: rs.Labels[v1alpha1.LabelRevision],
		Replicas: ptr.Deref(rs.Spec.Replicas, 1), Deleting: rs.DeletionTimestamp != nil,
	}
	for _, c := range rs.Spec.Template.Spec.Containers {
		if c.Name == v1alpha1.RouterContainer {
			view.Image = c.Image
		}
	}
	for _, c := range rs.Status.Conditions {
		if c.Type == appsv1.ReplicaSetReplicaFailure && c.Status == corev1.ConditionTrue {
			view.CreateFailure = steadyWords(c.Message)
		}
	}
	view.Drifted = view.Live() && o.drifted(rs, view)
	return view, true
}

// randomPod is how the API server names a pod it refuses: by a name it made up for this attempt.
var randomPod = regexp.MustCompile(`pods "[^"]*" is`)

// steadyWords takes out of a message what differs at each attempt.
func steadyWords(message string) string {
	return randomPod.ReplaceAllString(message, "its pod is")
}

// drifted tells whether somebody changed a set's pod template. The template is compared with what this operator renders
// for the same revision, and only if it would still render what the set was created with: another operator's rendering
// is no drift. A set of generation 1 was never changed.
func (o *observation) drifted(rs *appsv1.ReplicaSet, view rollout.ReplicaSet) bool {
	if rs.Generation <= 1 {
		return false
	}
	cr := o.revision(view.Revision)
	if cr == nil {
		return false
	}
	revision, err := children.DecodeRevision(cr)
	if err != nil {
		return false // reported where the revision is needed
	}
	want, err := renderSet(o.fleet, revision, view.Slot, view.Retry)
	if err != nil || want.Annotations[v1alpha1.AnnotationTemplateHash] != rs.Annotations[v1alpha1.AnnotationTemplateHash] {
		return false
	}
	return !equality.Semantic.DeepDerivative(want.Spec.Template, rs.Spec.Template) || longer(rs.Spec.Template.Spec, want.Spec.Template.Spec)
}

// longer tells whether a pod has list entries that were not intended. The comparison above lets a list go on: it is
// made for defaults, and the API server fills in fields but adds to none of these lists.
func longer(live, want corev1.PodSpec) bool {
	if len(live.Containers) != len(want.Containers) || len(live.InitContainers) != len(want.InitContainers) || len(live.Volumes) != len(want.Volumes) {
		return true
	}
	for i := range want.Containers {
		l, w := &live.Containers[i], &want.Containers[i]
		if len(l.Command) != len(w.Command) || len(l.Args) != len(w.Args) || len(l.Env) != len(w.Env) ||
			len(l.EnvFrom) != len(w.EnvFrom) || len(l.VolumeMounts) != len(w.VolumeMounts) {
			return true
		}
	}
	return false
}

// renderSet renders a slot's ReplicaSet as an object.
func renderSet(f *v1alpha1.RouterFleet, revision children.Revision, slot, retry int32) (*appsv1.ReplicaSet, error) {
	intent, err := children.ReplicaSet(f, revision, slot, retry)
	if err != nil {
		return nil, err
	}
	raw, err := json.Marshal(intent)
	if err != nil {
		return nil, err
	}
	rs := &appsv1.ReplicaSet{}
	return rs, json.Unmarshal(raw, rs)
}

// podView translates a pod of ours.
func podView(pod *corev1.Pod) rollout.Pod {
	view := rollout.Pod{
		UID: pod.UID, Name: pod.Name, Created: pod.CreationTimestamp.Time,
		Done:      pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded,
		Container: rollout.Container{Pod: pod.UID},
	}
	if owner := metav1.GetControllerOfNoCopy(pod); owner != nil {
		view.ReplicaSet = owner.UID
	}
	if pod.DeletionTimestamp != nil {
		view.Terminating, view.GraceEnd = true, pod.DeletionTimestamp.Time // the API server's deadline, grace included
	}
	for _, c := range pod.Status.Conditions {
		switch {
		case c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue:
			view.Ready, view.ReadySince = true, c.LastTransitionTime.Time
		case c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse:
			view.Unschedulable, view.UnschedulableSince = c.Reason == corev1.PodReasonUnschedulable, c.LastTransitionTime.Time
		}
	}
	containerView(pod, &view)
	return view
}

func containerView(pod *corev1.Pod, view *rollout.Pod) {
	for _, c := range pod.Status.ContainerStatuses {
		if c.Name != v1alpha1.RouterContainer {
			continue
		}
		view.Container.ID = c.ContainerID
		view.Restarts = c.RestartCount
		view.Running = c.State.Running != nil && pod.Status.PodIP != ""
		if c.State.Waiting != nil {
			view.Waiting = c.State.Waiting.Reason
		}
		for _, ended := range []*corev1.ContainerStateTerminated{c.LastTerminationState.Terminated, c.State.Terminated} {
			if ended != nil && ended.ExitCode != 0 && ended.FinishedAt.After(view.LastCrash) {
				view.LastCrash = ended.FinishedAt.Time
			}
		}
	}
}
