package rollout_test

import (
	"testing"
	"time"

	"github.com/routerfleet/routerfleet/controllers/rollout"
	"github.com/routerfleet/routerfleet/router/bootstrap/status"
)

// lone gives the only replica of a fleet of one, planned at 1000 s.
func lone(t *testing.T, pods []rollout.Pod, answers map[rollout.Container]rollout.Answer, refusal string) rollout.Replica {
	t.Helper()
	d := rollout.Plan(rollout.World{
		Spec:   rollout.Spec{Replicas: 1, MaxSurge: 1, MaxUnproven: 1, MaxTerminating: 1, MinReady: 10 * time.Second},
		Target: "r0", Stable: "r0",
		ReplicaSets: []rollout.ReplicaSet{{Name: "f-0-r0", UID: "rs", Revision: "r0", Replicas: 1, CreateFailure: refusal}},
		Pods:        pods, Answers: answers,
	}, at(1000))
	if len(d.Replicas) != 1 {
		t.Fatalf("%d replicas, want 1", len(d.Replicas))
	}
	return d.Replicas[0]
}

func TestClassSaysWhatAReplicaIsGoodForNow(t *testing.T) {
	box := rollout.Container{Pod: "p", ID: "c1"}
	pod := func(change func(*rollout.Pod)) []rollout.Pod {
		p := rollout.Pod{UID: "p", Name: "p", ReplicaSet: "rs", Created: at(1), Running: true, Container: box}
		change(&p)
		return []rollout.Pod{p}
	}
	answer := func(a rollout.Answer) map[rollout.Container]rollout.Answer {
		return map[rollout.Container]rollout.Answer{box: a}
	}
	settled := answer(rollout.Answer{Status: &status.Status{State: status.StateSettled}})
	same := func(*rollout.Pod) {}
	for _, c := range []struct {
		name    string
		pods    []rollout.Pod
		answers map[rollout.Container]rollout.Answer
		refusal string
		class   rollout.Class
		failure rollout.Failure
	}{
		{"no pod yet", nil, nil, "", rollout.ClassBoot, rollout.NotFailed},
		{"no pod, quota", nil, nil, "pods is forbidden: exceeded quota: q", rollout.ClassFailed, rollout.QuotaExceeded},
		{"no pod, refused", nil, nil, "violates PodSecurity", rollout.ClassFailed, rollout.PodRefused},
		{"ended", pod(func(p *rollout.Pod) { p.Done = true }), nil, "", rollout.ClassFailed, rollout.PodEnded},
		{"ready, whatever it did before", pod(func(p *rollout.Pod) { p.Ready, p.Restarts, p.LastCrash = true, 9, at(999) }), nil, "", rollout.ClassReady, rollout.NotFailed},
		{"ready and silent", pod(func(p *rollout.Pod) { p.Ready = true }), answer(rollout.Answer{SilentSince: at(1)}), "", rollout.ClassReady, rollout.NotFailed},
		{"unschedulable for 59 s", pod(func(p *rollout.Pod) {
			p.Running, p.Unschedulable, p.UnschedulableSince = false, true, at(941)
		}), nil, "", rollout.ClassBoot, rollout.NotFailed},
		{"unschedulable for 60 s", pod(func(p *rollout.Pod) { p.Unschedulable, p.UnschedulableSince = true, at(940) }), nil, "", rollout.ClassFailed, rollout.Unschedulable},
		{"image", pod(func(p *rollout.Pod) { p.Waiting = "ErrImagePull" }), nil, "", rollout.ClassFailed, rollout.ImagePullFailed},
		{"config", pod(func(p *rollout.Pod) { p.Waiting = "CreateContainerConfigError" }), nil, "", rollout.ClassFailed, rollout.ContainerInvalid},
		{"back-off", pod(func(p *rollout.Pod) { p.Waiting = "CrashLoopBackOff" }), nil, "", rollout.ClassFailed, rollout.CrashLooping},
		{"between two crashes", pod(func(p *rollout.Pod) { p.Restarts, p.LastCrash = 2, at(990) }), nil, "", rollout.ClassFailed, rollout.CrashLooping},
		{"one crash is an accident", pod(func(p *rollout.Pod) { p.Restarts, p.LastCrash = 1, at(990) }), settled, "", rollout.ClassUnready, rollout.NotFailed},
		{"crashes long ago", pod(func(p *rollout.Pod) { p.Restarts, p.LastCrash = 7, at(300) }), settled, "", rollout.ClassUnready, rollout.NotFailed},
		{"settled, unready", pod(same), settled, "", rollout.ClassUnready, rollout.NotFailed},
		{"answers, not settled", pod(same), answer(rollout.Answer{Status: &status.Status{State: status.StateStarting}}), "", rollout.ClassBoot, rollout.NotFailed},
		{"the answer of an earlier container does not count", pod(func(p *rollout.Pod) { p.Container.ID = "c2" }), settled, "", rollout.ClassUnreachable, rollout.NotFailed},
		{"never asked", pod(same), nil, "", rollout.ClassUnreachable, rollout.NotFailed},
		{"silent for 299 s", pod(same), answer(rollout.Answer{SilentSince: at(701)}), "", rollout.ClassUnreachable, rollout.NotFailed},
		{"silent for 300 s", pod(same), answer(rollout.Answer{SilentSince: at(700)}), "", rollout.ClassFailed, rollout.Silent},
		{"creating", pod(func(p *rollout.Pod) { p.Running = false }), nil, "", rollout.ClassBoot, rollout.NotFailed},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := lone(t, c.pods, c.answers, c.refusal)
			if r.Class != c.class || r.Failure != c.failure {
				t.Errorf("class %s (%s), want %s (%s)", r.Class, r.Failure, c.class, c.failure)
			}
		})
	}
}

func TestTheYoungestLivingPodStandsForItsSlot(t *testing.T) {
	pods := []rollout.Pod{
		{UID: "a", Name: "old", ReplicaSet: "rs", Created: at(1), Ready: true},
		{UID: "b", Name: "terminating", ReplicaSet: "rs", Created: at(9), Terminating: true},
		{UID: "c", Name: "young", ReplicaSet: "rs", Created: at(5)},
		{UID: "d", Name: "ended", ReplicaSet: "rs", Created: at(8), Done: true},
		{UID: "e", Name: "foreign", ReplicaSet: "other", Created: at(9)},
	}
	if r := lone(t, pods, nil, ""); r.Pod == nil || r.Pod.Name != "young" {
		t.Errorf("pod %+v, want the young one", r.Pod)
	}
	twins := []rollout.Pod{{UID: "a", Name: "first", ReplicaSet: "rs", Created: at(1)}, {UID: "b", Name: "second", ReplicaSet: "rs", Created: at(1)}}
	if r := lone(t, twins, nil, ""); r.Pod.Name != "second" {
		t.Errorf("pod %s, want the greater uid on a tie", r.Pod.Name)
	}
}

func TestRequeueIsTheNextMomentThatMatters(t *testing.T) {
	w := rollout.World{
		Spec:   rollout.Spec{Replicas: 1, MaxSurge: 1, MaxUnproven: 1, MaxTerminating: 1, MinReady: 10 * time.Second},
		Target: "r0", Stable: "r0",
		ReplicaSets: []rollout.ReplicaSet{{Name: "f-0-r0", UID: "rs", Revision: "r0", Replicas: 1}},
		Pods:        []rollout.Pod{{UID: "p", ReplicaSet: "rs", Ready: true, ReadySince: at(993), Container: rollout.Container{Pod: "p", ID: "c"}}},
	}
	box := w.Pods[0].Container
	for _, c := range []struct {
		name   string
		change func(*rollout.World)
		want   time.Duration
	}{
		{"the end of minReadySeconds", func(*rollout.World) {}, 3 * time.Second},
		{"never at rest", func(w *rollout.World) { w.Pods[0].ReadySince = at(1) }, 0},
		{"the deadline of an active rollout", func(w *rollout.World) {
			w.Stable, w.Spec.ProgressDeadline, w.LastProgress = "", 60*time.Second, at(942)
		}, 2 * time.Second},
		{"the whole deadline when nobody knows of progress", func(w *rollout.World) {
			w.Stable, w.Spec.ProgressDeadline = "", 2*time.Second
		}, 2 * time.Second},
		{"no deadline while paused", func(w *rollout.World) {
			w.Stable, w.Spec.ProgressDeadline, w.LastProgress, w.Spec.Paused = "", 60*time.Second, at(942), true
		}, 3 * time.Second},
		{"the end of silence", func(w *rollout.World) {
			w.Pods[0].Ready, w.Pods[0].Running = false, true
			w.Answers = map[rollout.Container]rollout.Answer{box: {SilentSince: at(705)}}
		}, 5 * time.Second},
		{"the end of a crash's memory", func(w *rollout.World) {
			w.Pods[0].Ready, w.Pods[0].Restarts, w.Pods[0].LastCrash = false, 2, at(401)
		}, time.Second},
		{"the end of the patience with a scheduler", func(w *rollout.World) {
			w.Pods[0].Ready, w.Pods[0].Unschedulable, w.Pods[0].UnschedulableSince = false, true, at(944)
		}, 4 * time.Second},
		{"the end of a grace period while something is to retire", func(w *rollout.World) {
			w.Target = "r1"
			w.Pods = append(w.Pods, rollout.Pod{UID: "q", ReplicaSet: "rs", Terminating: true, GraceEnd: at(1001)})
		}, time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := w
			w.Pods = append([]rollout.Pod(nil), w.Pods...)
			c.change(&w)
			if got := rollout.Plan(w, at(1000)).RequeueAfter; got != c.want {
				t.Errorf("requeue after %s, want %s", got, c.want)
			}
		})
	}
}

// TestTheDeadlineIsOverAtItsSecond: the planner asks to be called again exactly then, so then must count.
func TestTheDeadlineIsOverAtItsSecond(t *testing.T) {
	w := rollout.World{Spec: rollout.Spec{Replicas: 1, MaxSurge: 1, MaxUnproven: 1, MaxTerminating: 1, ProgressDeadline: 60 * time.Second},
		Target: "r0", LastProgress: at(940),
		ReplicaSets: []rollout.ReplicaSet{{Name: "f-0-r0", UID: "rs", Revision: "r0", Replicas: 1}}}
	early := rollout.Plan(w, at(999))
	if early.DeadlineExceeded || early.RequeueAfter != time.Second {
		t.Errorf("a second early: exceeded %v, again after %s", early.DeadlineExceeded, early.RequeueAfter)
	}
	if !rollout.Plan(w, at(999).Add(early.RequeueAfter)).DeadlineExceeded {
		t.Error("not exceeded when the planner asked to be called")
	}
	w.Spec.ProgressDeadline = 0
	if rollout.Plan(w, at(99999)).DeadlineExceeded {
		t.Error("exceeded without a deadline")
	}
}

// TestThePlanFromAFreshListIsComparedByWhatItWrites: status updates between two reads are no difference, other
// objects are.
func TestThePlanFromAFreshListIsComparedByWhatItWrites(t *testing.T) {
	base := func() rollout.Decision {
		return rollout.Decision{Kind: rollout.Retire, Reason: rollout.Retiring,
			Retire: []rollout.Retirement{{UID: "a", ResourceVersion: "1"}},
			Delete: []rollout.Deletion{{UID: "d"}}}
	}
	for name, c := range map[string]struct {
		change func(*rollout.Decision)
		same   bool
	}{
		"resourceVersion": {func(d *rollout.Decision) { d.Retire[0].ResourceVersion = "2" }, true},
		"note":            {func(d *rollout.Decision) { d.Note = "x" }, true},
		"victim":          {func(d *rollout.Decision) { d.Retire[0].UID = "b" }, false},
		"deletion":        {func(d *rollout.Decision) { d.Delete[0].UID = "e" }, false},
		"fewer":           {func(d *rollout.Decision) { d.Retire = nil }, false},
		"reason":          {func(d *rollout.Decision) { d.Reason = rollout.ScaleIn }, false},
		"kind":            {func(d *rollout.Decision) { d.Kind = rollout.None }, false},
		"stable":          {func(d *rollout.Decision) { d.MarkStable = "r1" }, false},
		"creation":        {func(d *rollout.Decision) { d.Create = []rollout.Creation{{Slot: 1}} }, false},
	} {
		d := base()
		c.change(&d)
		if got := d.SameWrites(base()); got != c.same {
			t.Errorf("%s: same writes %v, want %v", name, got, c.same)
		}
	}
	one, two := rollout.Decision{Create: []rollout.Creation{{Slot: 1}}}, rollout.Decision{Create: []rollout.Creation{{Slot: 2}}}
	if one.SameWrites(two) {
		t.Error("creations in different slots are the same")
	}
}

func TestAWaitNamesARouterThatFoundNoUsableWorker(t *testing.T) {
	const plain, found = "slot 0: f-0-r0 is not ready yet", "slot 0: f-0-r0 is not ready yet: it has found no usable worker"
	box := rollout.Container{Pod: "p", ID: "c"}
	for name, c := range map[string]struct {
		answer map[rollout.Container]rollout.Answer
		want   string
	}{
		"settled without":           {said(box, status.StateSettled, 0, 0), found},
		"settled, some unusable":    {said(box, status.StateSettled, 4, 0), found},
		"bootstrapping without":     {said(box, status.StateBootstrapping, 0, 0), found},
		"has not looked":            {said(box, status.StateStarting, 0, 0), plain},
		"a state nobody knows":      {said(box, status.StateUnknown, 0, 0), plain},
		"has one":                   {said(box, status.StateSettled, 4, 1), plain},
		"has not answered":          {nil, plain},
		"an earlier container told": {said(rollout.Container{Pod: "p", ID: "before"}, status.StateSettled, 0, 0), plain},
	} {
		d := rollout.Plan(rollout.World{
			Spec:   rollout.Spec{Replicas: 1, MaxSurge: 1, MaxUnproven: 1, MaxTerminating: 1},
			Target: "r0", Answers: c.answer,
			ReplicaSets: []rollout.ReplicaSet{{Name: "f-0-r0", UID: "rs", Revision: "r0", Replicas: 1}},
			Pods:        []rollout.Pod{{UID: "p", ReplicaSet: "rs", Running: true, Container: box}},
		}, at(1000))
		if d.Reason != rollout.WaitingForBootstrap || d.Note != c.want {
			t.Errorf("%s: %s %q, want %q", name, d.Reason, d.Note, c.want)
		}
	}
}

func said(box rollout.Container, state status.State, discovered, usable int) map[rollout.Container]rollout.Answer {
	return map[rollout.Container]rollout.Answer{box: {
		ReadAt: at(999), Status: &status.Status{State: state, Workers: status.Workers{Discovered: discovered, Usable: usable}},
	}}
}

func TestAFailedPullNamesTheImage(t *testing.T) {
	r := rollout.Replica{ReplicaSet: rollout.ReplicaSet{Name: "f-0-r0", Image: "registry.example/router:v9"}, Failure: rollout.ImagePullFailed}
	if got := r.Explain(); got != "f-0-r0 cannot pull the image registry.example/router:v9; correct spec.image or the pull secrets" {
		t.Errorf("got %q", got)
	}
	r.ReplicaSet.Image = ""
	if got := r.Explain(); got != "f-0-r0 cannot pull its image; correct spec.image or the pull secrets" {
		t.Errorf("got %q", got)
	}
}
