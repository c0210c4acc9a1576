package controllers

import (
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/routerfleet/routerfleet/api/v1alpha1"
	"github.com/routerfleet/routerfleet/controllers/children"
	"github.com/routerfleet/routerfleet/controllers/rollout"
)

func testFleet() *v1alpha1.RouterFleet {
	f := &v1alpha1.RouterFleet{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "demo", UID: "fleet"}}
	f.Spec.Image = "router:v1"
	f.Spec.Workers.Plain = &v1alpha1.PlainDiscovery{Selector: metav1.LabelSelector{MatchLabels: map[string]string{"app": "engine"}}}
	f.Spec.Default()
	return f
}

func TestAPodIsTranslatedByWhatItsRouterContainerDoes(t *testing.T) {
	controller := true
	base := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", UID: "p", CreationTimestamp: noon,
		OwnerReferences: []metav1.OwnerReference{{UID: "rs", Controller: &controller}}}}
	running := corev1.ContainerStatus{Name: v1alpha1.RouterContainer, ContainerID: "c1", RestartCount: 2,
		State:                corev1.ContainerState{Running: &corev1.ContainerStateRunning{}},
		LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 1, FinishedAt: noon}}}
	for _, c := range []struct {
		name   string
		change func(*corev1.Pod)
		check  func(rollout.Pod) bool
	}{
		{"owner and age", func(*corev1.Pod) {}, func(p rollout.Pod) bool {
			return p.ReplicaSet == "rs" && p.Created.Equal(noon.Time) && !p.Running && p.Container == rollout.Container{Pod: "p"}
		}},
		{"ready since", func(p *corev1.Pod) {
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: noon}}
		}, func(p rollout.Pod) bool { return p.Ready && p.ReadySince.Equal(noon.Time) }},
		{"running", func(p *corev1.Pod) {
			p.Status.PodIP, p.Status.ContainerStatuses = "10.0.0.1", []corev1.ContainerStatus{running}
		}, func(p rollout.Pod) bool {
			return p.Running && p.Container.ID == "c1" && p.Restarts == 2 && p.LastCrash.Equal(noon.Time)
		}},
		{"running without an address cannot be asked", func(p *corev1.Pod) {
			p.Status.ContainerStatuses = []corev1.ContainerStatus{running}
		}, func(p rollout.Pod) bool { return !p.Running }},
		{"a sidecar is nobody's router", func(p *corev1.Pod) {
			other := running
			other.Name = "mesh"
			p.Status.PodIP, p.Status.ContainerStatuses = "10.0.0.1", []corev1.ContainerStatus{other}
		}, func(p rollout.Pod) bool { return !p.Running && p.Container.ID == "" }},
		{"an orderly end is no crash", func(p *corev1.Pod) {
			done := running
			done.LastTerminationState.Terminated = &corev1.ContainerStateTerminated{ExitCode: 0, FinishedAt: noon}
			p.Status.ContainerStatuses = []corev1.ContainerStatus{done}
		}, func(p rollout.Pod) bool { return p.LastCrash.IsZero() }},
		{"waiting", func(p *corev1.Pod) {
			p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: v1alpha1.RouterContainer,
				State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff"}}}}
		}, func(p rollout.Pod) bool { return p.Waiting == "ImagePullBackOff" }},
		{"unschedulable", func(p *corev1.Pod) {
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable}}
		}, func(p rollout.Pod) bool { return p.Unschedulable }},
		{"gated is not unschedulable", func(p *corev1.Pod) {
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonSchedulingGated}}
		}, func(p rollout.Pod) bool { return !p.Unschedulable }},
		{"ended", func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }, func(p rollout.Pod) bool { return p.Done }},
		{"terminating", func(p *corev1.Pod) { p.DeletionTimestamp = &noon }, func(p rollout.Pod) bool {
			return p.Terminating && p.GraceEnd.Equal(noon.Time)
		}},
	} {
		pod := *base.DeepCopy()
		c.change(&pod)
		if view := podView(&pod); !c.check(view) {
			t.Errorf("%s: %+v", c.name, view)
		}
	}
}

func TestAReplicaSetIsTranslatedByItsLabels(t *testing.T) {
	o := &observation{fleet: testFleet()}
	set := func(slot, retry string) *appsv1.ReplicaSet {
		return &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Name: "x", UID: "u", ResourceVersion: "5", Generation: 1,
			Labels: map[string]string{v1alpha1.LabelSlot: slot, v1alpha1.LabelRetry: retry, v1alpha1.LabelRevision: "r0"}},
			Spec: appsv1.ReplicaSetSpec{Replicas: ptr.To[int32](1), Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
				Containers: []corev1.Container{{Name: "sidecar", Image: "s"}, {Name: v1alpha1.RouterContainer, Image: "r:v9"}, {Name: "proxy", Image: "p"}},
			}}}}
	}
	view, ok := o.setView(set("4", "2"))
	if !ok || view.Image != "r:v9" || view.Slot != 4 || view.Retry != 2 || view.Revision != "r0" || !view.Live() || view.ResourceVersion != "5" {
		t.Errorf("view %+v, %v", view, ok)
	}
	for _, labels := range [][2]string{{"", "0"}, {"-1", "0"}, {"four", "0"}, {"99999999999", "0"}, {"1", "x"}} {
		if _, ok := o.setView(set(labels[0], labels[1])); ok {
			t.Errorf("labels %v make a slot", labels)
		}
	}
	refused := set("1", "0")
	refused.Status.Conditions = []appsv1.ReplicaSetCondition{{Type: appsv1.ReplicaSetReplicaFailure, Status: corev1.ConditionTrue,
		Message: `pods "demo-1-r0-7x2pq" is forbidden: exceeded quota: q, requested: pods=1`}}
	if view, _ := o.setView(refused); view.CreateFailure != "its pod is forbidden: exceeded quota: q, requested: pods=1" {
		t.Errorf("the message keeps what differs at each attempt: %s", view.CreateFailure)
	}
}

func TestDriftIsAnEditedTemplateAndNothingElse(t *testing.T) {
	f := testFleet()
	revision, err := children.RevisionOf(f)
	if err != nil {
		t.Fatal(err)
	}
	o := &observation{fleet: f, revisions: []appsv1.ControllerRevision{controllerRevision(t, f, revision)}}
	created := func() *appsv1.ReplicaSet {
		rs, err := renderSet(f, revision, 1, 0)
		if err != nil {
			t.Fatal(err)
		}
		rs.Generation = 2
		rs.Spec.Template.Spec.SchedulerName = "default-scheduler" // what the API server fills in
		rs.Spec.Template.Spec.Containers[0].TerminationMessagePath = "/dev/termination-log"
		return rs
	}
	for name, c := range map[string]struct {
		change func(*appsv1.ReplicaSet)
		want   bool
	}{
		"defaults are none": {func(*appsv1.ReplicaSet) {}, false},
		"another image":     {func(rs *appsv1.ReplicaSet) { rs.Spec.Template.Spec.Containers[0].Image = "evil" }, true},
		"one more container": {func(rs *appsv1.ReplicaSet) {
			rs.Spec.Template.Spec.Containers = append(rs.Spec.Template.Spec.Containers, corev1.Container{Name: "x"})
		}, true},
		"one more argument": {func(rs *appsv1.ReplicaSet) {
			rs.Spec.Template.Spec.Containers[0].Args = append(rs.Spec.Template.Spec.Containers[0].Args, "--x")
		}, true},
		"a retired set is nobody's": {func(rs *appsv1.ReplicaSet) {
			rs.Spec.Template.Spec.Containers[0].Image = "evil"
			rs.Spec.Replicas = new(int32)
		}, false},
		"never changed since creation": {func(rs *appsv1.ReplicaSet) { rs.Spec.Template.Spec.Containers[0].Image = "evil"; rs.Generation = 1 }, false},
		"rendered by another operator": {func(rs *appsv1.ReplicaSet) {
			rs.Spec.Template.Spec.Containers[0].Image = "evil"
			rs.Annotations[v1alpha1.AnnotationTemplateHash] = "other"
		}, false},
		"a revision nobody knows": {func(rs *appsv1.ReplicaSet) {
			rs.Spec.Template.Spec.Containers[0].Image = "evil"
			rs.Labels[v1alpha1.LabelRevision] = "lost"
		}, false},
	} {
		rs := created()
		c.change(rs)
		if view, _ := o.setView(rs); view.Drifted != c.want {
			t.Errorf("%s: drifted %v, want %v", name, view.Drifted, c.want)
		}
	}
}

func controllerRevision(t *testing.T, f *v1alpha1.RouterFleet, r children.Revision) appsv1.ControllerRevision {
	t.Helper()
	intent := children.ControllerRevision(f, r, 1)
	cr := appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{Name: *intent.Name, Labels: intent.Labels}, Revision: 1}
	cr.Data = *intent.Data
	return cr
}

func TestTheNewestMarkIsTheStableRevision(t *testing.T) {
	cr := func(hash string, number int64, marked bool) appsv1.ControllerRevision {
		c := appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{v1alpha1.LabelRevision: hash}}, Revision: number}
		if marked {
			c.Annotations = map[string]string{v1alpha1.AnnotationStable: "true"}
		}
		return c
	}
	for want, revisions := range map[string][]appsv1.ControllerRevision{
		"":   {cr("r0", 1, false)},
		"r0": {cr("r0", 1, true), cr("r1", 2, false)},
		"r1": {cr("r0", 1, true), cr("r1", 2, true), cr("r2", 3, false)}, // a crash left two marks
	} {
		if got := (&observation{revisions: revisions}).stable(); got != want {
			t.Errorf("stable %q, want %q", got, want)
		}
	}
}

func TestAnErrorIsFiledWhereItBelongs(t *testing.T) {
	resource := schema.GroupResource{Resource: "services"}
	for name, c := range map[string]struct {
		err   error
		count func(*outcome) bool
	}{
		"none":     {nil, func(o *outcome) bool { return !o.lookAgain && len(o.errs)+len(o.invalid)+len(o.conflicts) == 0 }},
		"foreign":  {errForeign, func(o *outcome) bool { return len(o.conflicts) == 1 }},
		"conflict": {apierrors.NewConflict(resource, "x", nil), func(o *outcome) bool { return o.lookAgain && len(o.errs) == 0 }},
		"invalid":  {apierrors.NewBadRequest("bad"), func(o *outcome) bool { return len(o.invalid) == 1 && o.invalid[0].what == "bad" }},
		"rbac":     {apierrors.NewForbidden(resource, "x", nil), func(o *outcome) bool { return len(o.invalid) == 1 }},
		"timeout":  {apierrors.NewTimeoutError("slow", 1), func(o *outcome) bool { return len(o.errs) == 1 }},
	} {
		out := &outcome{}
		out.book("Service", "x", c.err)
		if !c.count(out) {
			t.Errorf("%s: %+v", name, out)
		}
	}
}

func TestIntentsAgreeOnlyWithWhatTheyLeftBehind(t *testing.T) {
	s, key, hash := newIntents(), intentOf(testFleet(), "Service", "demo"), [32]byte{1}
	s.store(key, intent{hash: hash, version: "10"})
	for name, c := range map[string]struct {
		hash    [32]byte
		version string
		want    bool
	}{
		"same":                     {hash, "10", true},
		"a cache that lags":        {hash, "9", true},
		"somebody wrote":           {hash, "11", false},
		"another intent":           {[32]byte{2}, "10", false},
		"a version out of nowhere": {hash, "x", false},
	} {
		if got := s.agrees(key, c.hash, c.version); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
	s.moved(key, "12")
	if !s.agrees(key, hash, "12") {
		t.Error("our own write beside the intent counts as somebody's")
	}
	s.forget(types.NamespacedName{Namespace: "ns", Name: "demo"})
	if s.agrees(key, hash, "12") {
		t.Error("a forgotten fleet has intents")
	}
}

func TestThePageOfAnotherFleetOfTheSameNameIsBlank(t *testing.T) {
	n, f := newNotebook(), testFleet()
	n.write(f, func(p *page) { p.version = "5" })
	if n.read(f).version != "5" {
		t.Error("the page is lost")
	}
	other := testFleet()
	other.UID = "recreated"
	if p := n.read(other); p.version != "" || p.uid != "recreated" {
		t.Errorf("another fleet reads %+v", p)
	}
}

func TestTheSoonestPositiveWaitWins(t *testing.T) {
	for _, c := range []struct {
		waits []time.Duration
		want  time.Duration
	}{{nil, 0}, {[]time.Duration{0, 0}, 0}, {[]time.Duration{0, 3, 2}, 2}, {[]time.Duration{-1, 5}, 5}} {
		if got := soonest(c.waits); got != c.want {
			t.Errorf("soonest of %v is %v, want %v", c.waits, got, c.want)
		}
	}
}

func TestTheAdminPortIsTheNamedOneOfTheRouter(t *testing.T) {
	pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{
		{Name: "mesh", Ports: []corev1.ContainerPort{{Name: "admin", ContainerPort: 1}}},
		{Name: v1alpha1.RouterContainer, Ports: []corev1.ContainerPort{{Name: "http", ContainerPort: 2}, {Name: "admin", ContainerPort: 3}}},
	}}}
	if got := adminPort(pod); got != 3 {
		t.Errorf("admin port %d, want 3", got)
	}
	if got := adminPort(&corev1.Pod{}); got != v1alpha1.PortAdmin {
		t.Errorf("admin port %d, want the default", got)
	}
}

func TestPodsWakeTheirFleetByLabel(t *testing.T) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Labels: map[string]string{v1alpha1.LabelFleet: "demo"}}}
	if got := fleetOfPod(t.Context(), pod); len(got) != 1 || got[0].Name != "demo" || got[0].Namespace != "ns" {
		t.Errorf("woken %v", got)
	}
	if got := fleetOfPod(t.Context(), &corev1.Pod{}); got != nil {
		t.Errorf("a pod without the label wakes %v", got)
	}
}
