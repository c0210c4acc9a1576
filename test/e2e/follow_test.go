//go:build e2e

package e2e

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/routerfleet/routerfleet/api/v1alpha1"
	"github.com/routerfleet/routerfleet/test/e2e/live"
)

// followLimit is the promise: routers act on an EndpointSlice within a second of its change.
const followLimit = time.Second

// engineChange is something that happens to engines, and what the slices say afterwards.
type engineChange struct {
	name  string
	do    func(e *engines)
	ready []string
	// idle is an engine that still answers but is out of rotation: its own counter must stand still.
	idle string
}

var engineChanges = []engineChange{
	{name: "added", do: func(e *engines) { e.add("engine-3") },
		ready: []string{"engine-0", "engine-1", "engine-2", "engine-3"}},
	{name: "deleted", do: func(e *engines) { e.remove("engine-0") },
		ready: []string{"engine-1", "engine-2", "engine-3"}},
	{name: "unready", do: func(e *engines) { e.ready("engine-1", false) },
		ready: []string{"engine-2", "engine-3"}, idle: "engine-1"},
	{name: "ready again", do: func(e *engines) { e.ready("engine-1", true) },
		ready: []string{"engine-1", "engine-2", "engine-3"}},
	{name: "relabelled away", do: func(e *engines) { e.label("engine-2", "somewhere-else") },
		ready: []string{"engine-1", "engine-3"}, idle: "engine-2"},
	{name: "relabelled back", do: func(e *engines) { e.label("engine-2", engineService) },
		ready: []string{"engine-1", "engine-2", "engine-3"}},
}

func TestRoutersFollowEnginesWithinASecondAndFailNoRequest(t *testing.T) {
	t.Parallel()
	s := newScope(t)
	e := s.startEngines(3)
	f := s.createFleet("follows", replicas(2))
	f.await("every router has 3 engines", func() error { return f.routers(inRotation(3)) })
	slices := e.witnessSlices()
	load := f.startLoad()

	for _, change := range engineChanges {
		change.do(e)
		told := slices.await(s, change.ready...)
		took := f.follow("engine "+change.name, told, followLimit, inRotation(len(change.ready)))
		t.Logf("engine %s: every router was seen to have followed %s after the slice's change", change.name, took.Round(time.Millisecond))
		if change.idle != "" {
			e.mustStayIdle(change.idle)
		}
	}
	result := load.mustHaveServedAll()
	t.Logf("%d requests while engines came and went, none failed", result.Requests)
}

// mustStayIdle checks by the engine's own count that nothing new reaches it. Requests that were on
// their way at the change have reached it by the time the routers followed.
func (e *engines) mustStayIdle(name string) {
	e.Helper()
	before := e.requests(name)
	if before == 0 {
		e.Fatalf("engine %s never got a request: that it gets none now says nothing", name)
	}
	e.consistently(1500*time.Millisecond, "engine "+name+" gets no request", func() error {
		return same("requests it counted", e.requests(name), before)
	})
}

func TestAFleetWithoutEnginesSaysSoAndServesWhenTheyCome(t *testing.T) {
	t.Parallel()
	s := newScope(t)
	f := &fleet{scope: s, name: "empty"}
	f.mustApply(replicas(1))
	f.await("the fleet says that there are no engines", func() error { return f.saysNoWorkers() })

	e := s.startEngines(1)
	f.awaitReady()
	base := f.forward(f.pods()[0].Name)
	if err := f.chats(base); err != nil {
		t.Fatalf("the first request: %v", err)
	}

	e.remove(engineName(0))
	f.await("the fleet says that they are gone", func() error { return f.saysNoWorkers() })
	if pod := f.pods()[0]; !live.PodReady(&pod) {
		t.Error("a router that has served once went unready with its engines: clients would get no answer at all")
	}
	got := f.post(base+"/v1/chat/completions", chatBody(modelID))
	if got.status != 503 || got.header.Get(errorCodeHeader) != "no_healthy_workers" || got.openAIError().Message == "" {
		t.Errorf("without engines a request gets %d %v %s, want 503 no_healthy_workers as an OpenAI error", got.status, got.header, got.body)
	}

	e.add("engine-1")
	f.await("requests are served again", func() error { return f.chats(base) })
}

// saysNoWorkers is nil once the fleet tells, for its current generation, that routers find no engine.
func (f *fleet) saysNoWorkers() error {
	f.Helper()
	fleet := f.get()
	return all(
		hasCondition(fleet, v1alpha1.ConditionWorkersDiscovered, metav1.ConditionFalse, v1alpha1.ReasonNoWorkers),
		hasCondition(fleet, v1alpha1.ConditionReady, metav1.ConditionFalse, ""),
	)
}
