package app

import (
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/routerfleet/routerfleet/router/bootstrap/status"
	"github.com/routerfleet/routerfleet/router/models"
	"github.com/routerfleet/routerfleet/router/workers"
)

func TestWorkerLabelsBelongToTheWorkerTheyName(t *testing.T) {
	o := Options{Worker: []string{"a=http://10.0.0.1:8000", "http://10.0.0.2:8000"},
		WorkerLabels: []string{"10.0.0.2-8000=app=llama,track=canary"}}
	list, err := o.staticWorkers()
	if err != nil || len(list) != 2 {
		t.Fatalf("got %v, %v", list, err)
	}
	if list[0].Labels != nil || list[1].Labels["app"] != "llama" || list[1].Labels["track"] != "canary" || len(list[1].Labels) != 2 {
		t.Errorf("labels %v and %v", list[0].Labels, list[1].Labels)
	}
}

func TestWorkerLabelsThatCannotBeMeantAreNamed(t *testing.T) {
	for arg, want := range map[string]string{
		"b=app=llama":      `no --worker has the id "b"`,
		"a":                "give it as ID=key=value",
		"a=":               "give it as ID=key=value",
		"a=app":            "--worker-labels",
		"a=app in (x)":     "--worker-labels",
		"a=-bad-=x":        "--worker-labels",
		"a=app=-bad value": "--worker-labels",
	} {
		o := Options{Worker: []string{"a=http://10.0.0.1:8000"}, WorkerLabels: []string{arg}}
		if err := o.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want it to say %q", arg, err, want)
		}
	}
	twice := Options{Worker: []string{"a=http://10.0.0.1:8000"}, WorkerLabels: []string{"a=x=y", "a=x=z"}}
	if err := twice.Validate(); err == nil || !strings.Contains(err.Error(), "has labels already") {
		t.Errorf("got %v", err)
	}
}

func TestTheModelsAreThoseOfTheFileOrTheOneThatIsNamed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "models.yaml")
	if err := os.WriteFile(path, []byte("models: [{name: llama}, {name: qwen}]"), 0o600); err != nil {
		t.Fatal(err)
	}
	for what, c := range map[string]struct {
		o    Options
		want string
	}{
		"nothing is said": {Options{}, ""},
		"one is named":    {Options{ModelID: "llama"}, "llama"},
		"a file":          {Options{ModelsFile: path}, "llama qwen"},
	} {
		set, err := c.o.readModels()
		if got := strings.Join(set.Serving(), " "); err != nil || got != c.want {
			t.Errorf("%s: got %q, %v", what, got, err)
		}
	}
	both := Options{Worker: []string{"http://10.0.0.1:8000"}, ModelID: "llama", ModelsFile: path}
	if err := both.Validate(); err == nil || !strings.Contains(err.Error(), "exclude each other") {
		t.Errorf("got %v", err)
	}
}

func TestAModelsFileThatCannotBeUsedIsAStartError(t *testing.T) {
	broken := filepath.Join(t.TempDir(), "models.yaml")
	if err := os.WriteFile(broken, []byte("models: [{nam: llama}]"), 0o600); err != nil {
		t.Fatal(err)
	}
	for what, o := range map[string]Options{
		"--models-file": {ModelsFile: broken}, "--model-id": {ModelID: "two\nlines"},
	} {
		o.Worker = []string{"http://10.0.0.1:8000"}
		if _, err := New(o); err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("%s: got %v", what, err)
		}
	}
	if _, err := New(Options{Worker: []string{"http://10.0.0.1:8000"}, ModelsFile: broken + ".missing"}); err == nil {
		t.Error("a missing file is let through")
	}
}

func TestWorkersThatNoModelSelectsAreAProblem(t *testing.T) {
	set, err := models.Parse([]byte("models: [{name: llama, selector: app=llama}]"))
	if err != nil {
		t.Fatal(err)
	}
	at := func(id, app string) workers.FixedWorker {
		return workers.FixedWorker{ID: workers.ID(id), URL: &url.URL{Scheme: "http", Host: id + ":8000"}, Models: []string{"llama"}, Labels: map[string]string{"app": app}}
	}
	registry, err := workers.NewFixed(workers.Options{Models: set}, at("a", "llama"), at("b", "qwen"), at("c", ""))
	if err != nil {
		t.Fatal(err)
	}
	got := summarize(unselected(registry.Snapshot()))
	if len(got) != 1 || got[0].Code != status.CodeWorkersUnselected || got[0].Count != 2 || got[0].Example != "b: the selector of no model takes it" {
		t.Errorf("got %+v", got)
	}
	registry.Set(at("a", "llama"))
	if got := summarize(unselected(registry.Snapshot())); got != nil {
		t.Errorf("got %+v", got)
	}
}
