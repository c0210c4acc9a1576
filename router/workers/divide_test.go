package workers

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/routerfleet/routerfleet/internal/slicewatch/slicewatchtest"
	"github.com/routerfleet/routerfleet/router/models"
)

func one(t *testing.T, name string) *models.Set {
	t.Helper()
	set, err := models.One(name)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

func file(t *testing.T, text string) *models.Set {
	t.Helper()
	set, err := models.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return set
}

const llamaAndQwen = `
models:
- {name: llama, selector: app=llama}
- {name: qwen, selector: app=qwen}
- {name: any, split: [{model: llama, weight: 1}, {model: qwen, weight: 1}]}
`

// labelled is an endpoint behind Services with these labels, "app=llama" and the like.
func (e endpoint) labelled(apps ...string) endpoint {
	for _, app := range apps {
		e.labels = append(e.labels, map[string]string{"app": app})
	}
	return e
}

// reports ends the introspection under way for id. A name "a<b" is an adapter a of b.
func (s *story) reports(id ID, names ...string) {
	s.t.Helper()
	f := facts{dpSize: 1}
	for _, name := range names {
		name, parent, _ := strings.Cut(name, "<")
		f.models = append(f.models, Model{ID: name, Parent: parent})
	}
	s.step(introspected{id: id, epoch: s.m.entries[id].askEpoch, facts: f})
}

func (s *story) pool(model, want string) {
	s.t.Helper()
	if pool, _ := s.snap.Pool(model); ids(pool) != want {
		s.t.Errorf("%q is served by %q, want %q", model, ids(pool), want)
	}
}

func TestModelsDivideTheWorkersByLabels(t *testing.T) {
	s := newStory(t, Options{Models: file(t, llamaAndQwen)})
	s.list(at("a", "10.0.0.1:8000").labelled("llama"), at("b", "10.0.0.2:8000").labelled("qwen"),
		at("c", "10.0.0.3:8000").labelled("mistral"), at("d", "10.0.0.4:8000").labelled("llama"), at("e", "10.0.0.5:8000"))
	for _, id := range []ID{"a", "b", "c", "d", "e"} {
		s.reports(id, map[ID]string{"b": "qwen", "d": "qwen"}[id]+map[ID]string{"a": "llama", "c": "llama", "e": "llama"}[id])
	}
	s.pool("llama", "a/0")
	s.pool("qwen", "b/0") // not d, which is selected for llama
	s.state("c", StateUnselected)
	s.state("d", StateOtherModel)
	s.state("e", StateUnselected)
	if c := s.snap.Counts(); c != (Counts{Discovered: 5, InRotation: 2, Withdrawn: 3, Unselected: 2}) {
		t.Errorf("counts %+v", c)
	}
	for id, want := range map[ID]string{"c": "the selector of no model takes it", "d": `it is selected for "llama", but reports "qwen"`} {
		at := slices.IndexFunc(s.snap.Workers(), func(l Listed) bool { return l.Worker.ID() == id })
		if got := s.snap.Workers()[at].Reason; !strings.Contains(got, want) {
			t.Errorf("%s: %q does not say %q", id, got, want)
		}
	}
	if got := len(s.worker("c").Models()); got != 0 {
		t.Errorf("an unselected worker serves %d models", got)
	}
}

func TestANameWithoutWorkersIsKnownAndOneOutsideTheFileIsNot(t *testing.T) {
	s := newStory(t, Options{Models: file(t, llamaAndQwen)})
	s.list(at("a", "10.0.0.1:8000").labelled("llama"))
	s.reports("a", "llama", "extra")
	for model, want := range map[string]bool{"llama": true, "qwen": true, "any": false, "extra": false, "": false} {
		if _, known := s.snap.Pool(model); known != want {
			t.Errorf("%q is known: %v", model, known)
		}
	}
	if got := fmt.Sprint(s.snap.Models()); got != "[{llama 0  }]" {
		t.Errorf("models %s", got)
	}
}

func TestARelabelledWorkerChangesItsModel(t *testing.T) {
	s := newStory(t, Options{Models: file(t, llamaAndQwen)})
	a := at("a", "10.0.0.1:8000")
	s.list(a.labelled("llama"))
	s.reports("a", "llama", "qwen") // two names of one engine
	s.pool("llama", "a/0")
	s.list(a.labelled("qwen"))
	s.expect("")
	s.pool("llama", "")
	s.pool("qwen", "a/0")
	s.list(a.labelled("neither"))
	s.expect("ns/a in_rotation->unselected")
	s.list(a.labelled("neither", "llama")) // behind two Services
	s.expect("ns/a unselected->in_rotation")
	s.pool("llama", "a/0")
}

func TestAdaptersGoToTheEnginesThatHaveThem(t *testing.T) {
	s := newStory(t, Options{Models: file(t, `
models:
- {name: llama, selector: app=llama}
- {name: sql, selector: app=tuned}
- {name: qwen, selector: app=qwen}
`)})
	s.list(at("a", "10.0.0.1:8000").labelled("llama"), at("b", "10.0.0.2:8000").labelled("llama"),
		at("c", "10.0.0.3:8000").labelled("tuned"), at("d", "10.0.0.4:8000").labelled("qwen"))
	s.reports("a", "llama", "poet<llama", "sql<llama")
	s.reports("b", "llama")
	s.reports("c", "base", "poet<base", "sql<base") // selected for the adapter alone
	s.reports("d", "other", "poet<other")
	s.pool("llama", "a/0 b/0")
	s.pool("poet", "a/0")
	s.pool("sql", "c/0") // an entry of its own: its selector counts
	s.state("d", StateOtherModel)
	if got := fmt.Sprint(s.snap.Models()); got != "[{llama 0  } {poet 0  llama} {sql 0  base}]" {
		t.Errorf("models %s", got)
	}
}

func TestASilentWorkerServesTheOneModelThatTakesIt(t *testing.T) {
	s := newStory(t, Options{Models: file(t, "models: [{name: m1, selector: app=a}, {name: m2, selector: 'app in (a, b)'}]")})
	s.list(at("a", "10.0.0.1:8000").labelled("a"), at("b", "10.0.0.2:8000").labelled("b"))
	for _, id := range []ID{"a", "b"} {
		s.step(introspected{id: id, epoch: s.m.entries[id].askEpoch, err: errors.New("/v1/models answered 404")})
	}
	s.pool("m2", "b/0")
	s.pool("m1", "")
	s.state("a", StateUnintrospected) // two models take it: no guess
}

func TestWithOneConfiguredModelItNeedsNoNameBesideItsAdapters(t *testing.T) {
	s := newStory(t, Options{Models: one(t, "m")})
	s.list(at("a", "10.0.0.1:8000"), at("b", "10.0.0.2:8000"))
	s.reports("a", "m", "poet<m")
	s.reports("b", "m")
	s.pool("", "a/0 b/0")
	s.pool("poet", "a/0")
}

func TestStaticWorkersAreDividedByTheLabelsTheyAreGiven(t *testing.T) {
	ws := static(t, "a=http://10.0.0.1:8000", "b=http://10.0.0.2:8000")
	ws[0].Labels = map[string]string{"app": "llama"}
	s := newStory(t, Options{Static: ws, Models: file(t, llamaAndQwen)})
	for _, id := range []ID{"a", "b"} {
		s.step(probed{id: id, epoch: s.m.entries[id].epoch})
		s.reports(id, "llama")
	}
	s.pool("llama", "a/0")
	s.state("b", StateUnselected)
}

// The labels of a pod are those of all slices it is in, however often and in which order they are listed.
func TestTheLabelsOfAWorkerAreThoseOfAllItsSlices(t *testing.T) {
	in := func(name, app string) *discoveryv1.EndpointSlice {
		s := ipv4(name, pod("a", "10.0.0.1"))
		s.Labels = map[string]string{"app": app}
		return s
	}
	all := []*discoveryv1.EndpointSlice{in("x", "llama"), in("y", "qwen"), in("z", "llama")}
	for range len(all) {
		all = append(all[1:], all[0])
		set, _ := desired(all, mustPort(t, "http"))
		if len(set) != 1 {
			t.Fatalf("got %d workers", len(set))
		}
		apps := map[string]int{}
		for _, labels := range set[0].labels {
			apps[labels["app"]]++
		}
		if !maps.Equal(apps, map[string]int{"llama": 1, "qwen": 1}) {
			t.Errorf("labels %v", set[0].labels)
		}
	}
}

// From the wire to the pool: a Service that is relabelled moves its pods between models on the event, and a pod behind two
// Services belongs to both.
func TestTheLabelsOfServicesDivideTheirPodsAtOnce(t *testing.T) {
	service := func(name, track string, eps ...discoveryv1.Endpoint) *discoveryv1.EndpointSlice {
		s := ipv4(name, eps...)
		s.Labels = map[string]string{"app": "engine", "track": track}
		return s
	}
	a, b := pod("a", "10.0.0.1"), pod("b", "10.0.0.2")
	set := file(t, "models: [{name: demo-model, selector: track=stable}, {name: other, selector: track=other}]")
	inClusterWith(t, set, func(s *slicewatchtest.Server) {
		s.Put(service("one", "stable", a))
		s.Put(service("two", "canary", b))
	}, func(t *testing.T, c *cluster) {
		state := func(id ID) State {
			at := slices.IndexFunc(c.Snapshot().Workers(), func(l Listed) bool { return l.Worker.ID() == id })
			return c.Snapshot().Workers()[at].State
		}
		c.pool(t, "at first", "ns/a/0")
		if got := state("ns/b"); got != StateUnselected {
			t.Errorf("b is %v", got)
		}
		c.Put(service("two", "stable", b))
		c.pool(t, "the second Service was relabelled", "ns/a/0 ns/b/0")
		c.Put(service("two", "other", b))
		c.pool(t, "and again", "ns/a/0")
		if got := state("ns/b"); got != StateOtherModel {
			t.Errorf("b is %v", got)
		}
		c.Put(service("three", "stable", b))
		c.pool(t, "b is behind a third Service, too", "ns/a/0 ns/b/0")
		c.Drop("three")
		c.pool(t, "and no longer", "ns/a/0")
	})
}
