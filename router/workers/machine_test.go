package workers

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"
)

// story drives a machine by hand and keeps its clock.
type story struct {
	t    *testing.T
	m    *machine
	now  time.Time
	last []effect
	snap *Snapshot
}

func newStory(t *testing.T, o Options) *story {
	t.Helper()
	s := &story{t: t, now: t0}
	o.Now = func() time.Time { return s.now }
	if len(o.Static) == 0 {
		o.Slices = &SliceSource{}
	}
	s.m = newMachine(o.withDefaults())
	s.step(tick{})
	return s
}

func (s *story) step(msg message) {
	s.t.Helper()
	s.last = s.m.step(s.now, msg)
	if next := s.m.snapshot(s.snap); next != nil {
		s.snap = next
	}
}

func (s *story) list(eps ...endpoint) { s.t.Helper(); s.step(listed{set: eps}) }

func (s *story) wait(d time.Duration) {
	s.t.Helper()
	s.now = s.now.Add(d)
	s.step(tick{})
}

// answer ends the introspection under way for id.
func (s *story) answer(id ID, dp int, models ...string) {
	s.t.Helper()
	f := facts{dpSize: dp}
	for _, m := range models {
		f.models = append(f.models, Model{ID: m})
	}
	s.step(introspected{id: id, epoch: s.m.entries[id].askEpoch, facts: f})
}

func (s *story) state(id ID, want State) {
	s.t.Helper()
	for _, l := range s.snap.workers {
		if l.Worker.id == id {
			if l.State != want {
				s.t.Fatalf("%s is %v (%s), want %v", id, l.State, l.Reason, want)
			}
			return
		}
	}
	if want != StateUnknown {
		s.t.Fatalf("%s is not known, want %v", id, want)
	}
}

// did says what the last step caused, without the addresses.
func (s *story) did() string {
	var out []string
	for _, e := range s.last {
		switch e := e.(type) {
		case introspect:
			out = append(out, "ask "+string(e.id))
		case probe:
			out = append(out, "probe "+string(e.id))
		case transition:
			out = append(out, fmt.Sprintf("%s %v->%v", e.name, e.from, e.to))
		case forgot:
			out = append(out, "forgot "+e.name)
		}
	}
	return strings.Join(out, ", ")
}

func (s *story) expect(want string) {
	s.t.Helper()
	if got := s.did(); got != want {
		s.t.Fatalf("did %q, want %q", got, want)
	}
}

func (s *story) worker(id ID) *Worker {
	s.t.Helper()
	for _, l := range s.snap.workers {
		if l.Worker.id == id {
			return l.Worker
		}
	}
	s.t.Fatalf("%s is not known", id)
	return nil
}

func at(id, address string) endpoint {
	return endpoint{id: ID(id), name: "ns/" + id, uid: id, url: &url.URL{Scheme: "http", Host: address}}
}

func (e endpoint) but(c condition) endpoint { e.condition = c; return e }

func TestADiscoveredWorkerIsAskedFirstAndRoutedThen(t *testing.T) {
	s := newStory(t, Options{})
	if s.snap.Synced() {
		t.Fatal("synced before the first list")
	}
	s.list(at("a", "10.0.0.1:8000"))
	s.expect("ask a, ns/a unknown->unintrospected")
	if !s.snap.Synced() {
		t.Fatal("not synced after the first list")
	}
	if pool, _ := s.snap.Pool("m"); len(pool) != 0 {
		t.Fatal("routed before it said what it serves")
	}
	s.answer("a", 2, "m")
	s.expect("ns/a unintrospected->in_rotation")
	if pool, _ := s.snap.Pool("m"); ids(pool) != "a/0 a/1" {
		t.Fatalf("pool %q", ids(pool))
	}
	s.wait(time.Hour)
	s.expect("") // known is known: no further questions
}

func TestWithdrawIsNotForget(t *testing.T) {
	a := at("a", "10.0.0.1:8000")
	s := newStory(t, Options{BreakerThreshold: 3})
	s.list(a)
	s.answer("a", 1, "m")
	rank := s.worker("a").Ranks()[0]
	open, _ := rank.Acquire(10)
	for range 2 {
		l, _ := rank.Acquire(1)
		l.Done(Failure)
	}

	s.list(a.but(conditionNotReady))
	s.state("a", StateNotReady)
	if pool, known := s.snap.Pool("m"); len(pool) != 0 || !known {
		t.Fatal("an unready worker is routed to, or its model is forgotten")
	}
	s.list() // gone from every slice
	s.state("a", StateAbsent)
	s.wait(59 * time.Second)
	s.state("a", StateAbsent)
	s.list(a)
	s.state("a", StateInRotation) // at once: what it serves is still known
	s.expect("ask a, ns/a absent->in_rotation")

	back := s.worker("a").Ranks()[0]
	if got := back.Load(); got != (Load{Active: 1, QueuedPrefillTokens: 10}) {
		t.Fatalf("the load counters were lost: %+v", got)
	}
	l, _ := back.Acquire(1)
	l.Done(Failure) // the third in a row
	if s.worker("a").Breaker() != BreakerOpen {
		t.Fatal("the breaker's streak was lost")
	}
	open.Done(Success)
	if got := back.Load(); got != (Load{}) {
		t.Fatalf("a lease of before and the rank of after do not share counters: %+v", got)
	}
}

func TestAWorkerAbsentFromEverySliceForSixtySecondsIsForgotten(t *testing.T) {
	s := newStory(t, Options{BreakerThreshold: 1})
	a := at("a", "10.0.0.1:8000")
	s.list(a)
	s.answer("a", 1, "m")
	l, _ := s.worker("a").Ranks()[0].Acquire(1)
	l.Done(Failure)
	if s.m.notClosed.Load() != 1 {
		t.Fatal("the breaker did not open")
	}
	s.list()
	if due, ok := s.m.next(); !ok || !due.Equal(s.now.Add(DefaultForgetAfter)) {
		t.Fatalf("the machine wants to wake at %v, %v", due, ok)
	}
	s.list() // another complete list without it does not start the time anew
	s.wait(DefaultForgetAfter)
	s.expect("forgot ns/a")
	s.state("a", StateUnknown)
	if s.m.notClosed.Load() != 0 {
		t.Fatal("the census still counts the breaker of a forgotten worker")
	}
	s.list(a)
	s.state("a", StateUnintrospected)
	if s.worker("a").Breaker() != BreakerClosed {
		t.Fatal("a forgotten breaker came back")
	}
}

func TestAnUnreadyWorkerIsNeverForgotten(t *testing.T) {
	s := newStory(t, Options{})
	s.list(at("a", "10.0.0.1:8000").but(conditionNotReady))
	s.expect("ns/a unknown->not_ready") // and is not asked while it boots
	s.wait(24 * time.Hour)
	s.state("a", StateNotReady)
}

func TestAnAddressTakenByAnotherUIDForgetsTheOldOneAtOnce(t *testing.T) {
	s := newStory(t, Options{})
	s.list(at("a", "10.0.0.1:8000"))
	s.answer("a", 1, "m")
	s.list(at("b", "10.0.0.1:8000"))
	s.expect("forgot ns/a, ask b, ns/b unknown->unintrospected")
	if pool, _ := s.snap.Pool("m"); len(pool) != 0 {
		t.Fatal("requests for the old pod's model would reach the new pod")
	}
	// Also when the old one had been absent for a while.
	s.list(at("b", "10.0.0.2:8000"), at("c", "10.0.0.3:8000"))
	s.list(at("b", "10.0.0.2:8000"))
	s.state("c", StateAbsent)
	s.list(at("b", "10.0.0.2:8000"), at("d", "10.0.0.3:8000"))
	s.state("c", StateUnknown)
}

func TestAnAnswerToAnOldQuestionIsNotBelieved(t *testing.T) {
	s := newStory(t, Options{})
	s.list(at("a", "10.0.0.1:8000"))
	old := s.m.entries["a"].askEpoch
	s.list(at("a", "10.0.0.9:8000")) // same pod, another port or family
	s.step(introspected{id: "a", epoch: old, facts: facts{models: []Model{{ID: "stale"}}}})
	s.state("a", StateUnintrospected)
	s.answer("a", 1, "m")
	s.state("a", StateInRotation)
	if got := s.worker("a").URL().Host; got != "10.0.0.9:8000" {
		t.Fatalf("routed to %s", got)
	}
	s.step(introspected{id: "nobody", epoch: 1})
	s.step(probed{id: "nobody", epoch: 1})
	s.step(introspected{id: "a", epoch: 1, facts: facts{models: []Model{{ID: "unasked"}}}})
	if pool, _ := s.snap.Pool("m"); len(pool) != 1 {
		t.Fatal("an answer nobody asked for was believed")
	}
}

func TestAnUnknownWorkerIsAskedAgainSoonAndThenEveryThirtySeconds(t *testing.T) {
	s := newStory(t, Options{})
	s.list(at("a", "10.0.0.1:8000"))
	for _, wait := range []time.Duration{1, 2, 4, 8, 16, 30, 30} {
		s.step(introspected{id: "a", epoch: s.m.entries["a"].askEpoch, err: errors.New("connection refused")})
		s.state("a", StateUnintrospected)
		if reason := s.snap.workers[0].Reason; !strings.Contains(reason, "connection refused") {
			t.Fatalf("reason %q", reason)
		}
		s.wait(wait*time.Second - 1)
		s.expect("")
		s.wait(1)
		s.expect("ask a")
	}
	s.answer("a", 0) // answers, and lists nothing
	s.state("a", StateUnintrospected)
	s.wait(DefaultRetryInterval)
	s.answer("a", 0, "m")
	s.state("a", StateInRotation)
}

func TestAReturningWorkerServesAtOnceAndIsAskedWhetherItChanged(t *testing.T) {
	a := at("a", "10.0.0.1:8000")
	s := newStory(t, Options{})
	s.list(a)
	s.answer("a", 1, "old")
	before := s.worker("a")
	s.list(a.but(conditionNotReady)) // the container restarts with another model
	s.list(a)
	s.expect("ask a, ns/a not_ready->in_rotation")
	if s.worker("a") != before {
		t.Fatal("the description was built anew although nothing changed")
	}
	l, _ := before.Ranks()[0].Acquire(5)
	s.answer("a", 2, "new")
	if pool, _ := s.snap.Pool("new"); ids(pool) != "a/0 a/1" {
		t.Fatalf("pool of the new model %q", ids(pool))
	}
	if _, known := s.snap.Pool("old"); known {
		t.Fatal("the old model is still known")
	}
	if got := s.worker("a").Ranks()[0].Load(); got.Active != 1 {
		t.Fatal("a model change reset the counters")
	}
	l.Done(Success)
	if got := s.worker("a").Ranks()[0].Load(); got != (Load{}) {
		t.Fatalf("load %+v", got)
	}
}

// Case 3 (vllm-project/router#279): the watch decides, whatever HTTP health would say.
func TestRelabelledAndUnreadyWorkersLeaveOnTheEventAndReturn(t *testing.T) {
	a, b := at("a", "10.0.0.1:8000"), at("b", "10.0.0.2:8000")
	s := newStory(t, Options{})
	s.list(a, b)
	s.answer("a", 1, "m")
	s.answer("b", 1, "m")
	s.list(b.but(conditionNotReady)) // a was relabelled, b turned unready
	if pool, _ := s.snap.Pool("m"); len(pool) != 0 {
		t.Fatalf("pool %q", ids(pool))
	}
	s.list(a, b)
	if pool, _ := s.snap.Pool("m"); ids(pool) != "a/0 b/0" {
		t.Fatalf("pool %q", ids(pool))
	}
}

func TestAConfiguredModelRestrictsAndNames(t *testing.T) {
	s := newStory(t, Options{Models: one(t, "m")})
	s.list(at("a", "10.0.0.1:8000"), at("b", "10.0.0.2:8000"), at("c", "10.0.0.3:8000"), at("d", "10.0.0.4:8000"))
	s.answer("a", 1, "adapter", "m")
	s.answer("b", 1, "something-else")
	s.step(introspected{id: "c", epoch: s.m.entries["c"].askEpoch, err: errors.New("/v1/models answered 404")})
	s.state("a", StateInRotation)
	s.state("b", StateOtherModel)
	s.state("c", StateInRotation)     // does not say: taken at the operator's word
	s.state("d", StateUnintrospected) // not asked yet: no guess
	if got := fmt.Sprint(s.snap.Models()); got != "[{m 0  }]" {
		t.Fatalf("models %s", got)
	}
	if c := s.snap.Counts(); c != (Counts{Discovered: 4, InRotation: 2, Withdrawn: 1, Unintrospected: 1}) {
		t.Fatalf("counts %+v", c)
	}
}

func static(t *testing.T, args ...string) []StaticWorker {
	t.Helper()
	var ws []StaticWorker
	for _, a := range args {
		w, err := ParseStatic(a)
		if err != nil {
			t.Fatal(err)
		}
		ws = append(ws, w)
	}
	return ws
}

func (s *story) heard(id ID, err error) {
	s.t.Helper()
	s.step(probed{id: id, epoch: s.m.entries[id].epoch, err: err})
}

func TestAStaticWorkerIsProbedAndFollowsItsHealth(t *testing.T) {
	s := newStory(t, Options{Static: static(t, "a=http://engine:8000")})
	s.expect("probe a, a unknown->unhealthy")
	if !s.snap.Synced() {
		t.Fatal("static workers need no sync")
	}
	down := errors.New("connection refused")
	s.heard("a", down)
	s.wait(unhealthyProbeInterval)
	s.expect("probe a")
	s.heard("a", nil)
	s.expect("ask a, a unhealthy->unintrospected")
	s.answer("a", 1, "m")
	s.state("a", StateInRotation)

	for i := range probesToFail { // one slow answer is no death
		s.state("a", StateInRotation)
		s.wait(DefaultProbeInterval)
		if s.did() != "probe a" {
			t.Fatalf("probe %d: did %q", i, s.did())
		}
		s.heard("a", down)
	}
	s.state("a", StateUnhealthy)
	if pool, known := s.snap.Pool("m"); len(pool) != 0 || !known {
		t.Fatal("an unhealthy worker is routed to, or its model unknown")
	}
	s.wait(unhealthyProbeInterval)
	s.heard("a", nil)
	s.expect("ask a, a unhealthy->in_rotation")
	s.wait(24 * time.Hour)
	s.state("a", StateInRotation)
}

func TestAStaticWorkerAtADiscoveredAddressIsOneWorker(t *testing.T) {
	s := newStory(t, Options{Static: static(t, "mine=http://10.0.0.1:8000", "other=http://10.0.0.2:8000"), Slices: &SliceSource{}})
	s.heard("mine", nil)
	s.answer("mine", 1, "m")
	s.list(at("a", "10.0.0.1:8000"))
	s.answer("a", 1, "m")
	if pool, _ := s.snap.Pool("m"); ids(pool) != "a/0" {
		t.Fatalf("pool %q", ids(pool))
	}
	s.state("mine", StateUnknown)
	s.state("other", StateUnhealthy)
	s.list()
	s.state("mine", StateUnhealthy) // back, and to be proven anew
}

func TestStaticWorkersAreReadFromFlags(t *testing.T) {
	for arg, want := range map[string]string{
		"http://10.0.0.1:8000": "10.0.0.1-8000", "a.b-1=https://host/base": "a.b-1", "http://[fd00::1]:80": "fd00-1-80",
		"http://Engine.Example": "engine.example", "http://host/a=b": "host",
	} {
		w, err := ParseStatic(arg)
		if err != nil || string(w.ID) != want {
			t.Errorf("%s: id %q, %v, want %q", arg, w.ID, err, want)
		}
	}
	for _, arg := range []string{
		"", "engine:8000", "ftp://x", "http://", "http://:80", "A=http://x", "a b=http://x", "=http://x", "a=", "http://u:p@x",
		"http://x?y=1", "http://x#f", "http://x:port",
	} {
		if w, err := ParseStatic(arg); err == nil {
			t.Errorf("%q was read as %+v", arg, w)
		}
	}
}

func TestAnAddressWithoutASchemeIsToldTheURLItMeant(t *testing.T) {
	for arg, meant := range map[string]string{
		"10.0.0.7:8000": "http://10.0.0.7:8000", "engine:8000": "http://engine:8000", "blue=10.0.0.7:8000": "blue=http://10.0.0.7:8000",
		"[fd00::1]:80": "http://[fd00::1]:80", "http://x?y=1": "", "http:80/x": "", "engine": "", ":80": "",
	} {
		_, err := ParseStatic(arg)
		if err == nil {
			t.Fatalf("%q was read", arg)
		}
		_, said, found := strings.Cut(err.Error(), "did you mean ")
		if found != (meant != "") || strings.TrimSuffix(said, "?") != meant {
			t.Errorf("%q: %v, want it to propose %q", arg, err, meant)
			continue
		}
		if found {
			if _, err := ParseStatic(meant); err != nil {
				t.Errorf("%q: the proposal is refused: %v", arg, err)
			}
		}
	}
}

func TestOptionsReportEverythingWrongAtOnce(t *testing.T) {
	_, err := New(Options{
		Static:          append(static(t, "a=http://x", "a=http://y"), StaticWorker{ID: "B"}, StaticWorker{ID: "c"}),
		Slices:          &SliceSource{Port: "99999"},
		BreakerCoolDown: -1,
	})
	if err == nil {
		t.Fatal("taken")
	}
	for _, want := range []string{`two static workers are called "a"`, `"B"`, `"c" has no URL`, "no Kubernetes client", "no namespace",
		"selector is empty", "99999", "cool-down"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is missing in:\n%v", want, err)
		}
	}
	if _, err := New(Options{}); err == nil || !strings.Contains(err.Error(), "--worker") {
		t.Errorf("no source: %v", err)
	}
	if err := (&SliceSource{Selector: "app in (a,b"}).validate(); err == nil || !strings.Contains(err.Error(), "app in (a,b") {
		t.Errorf("a broken selector: %v", err)
	}
}
