package models

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const twoModels = `
models:
- name: llama
  aliases: [gpt-4, chat]
  selector: app=llama,track in (stable, canary)
  tokenizer: {path: /tokenizers/llama}
- name: qwen
  selector: app=qwen
- name: any
  split:
  - {model: llama, weight: 3}
  - {model: qwen, weight: 1}
`

func parse(t testing.TB, text string) *Set {
	t.Helper()
	s, err := Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestAModelsFileIsReadAsItIsWritten(t *testing.T) {
	want := []Spec{
		{Name: "llama", Aliases: []string{"gpt-4", "chat"}, Selector: "app=llama,track in (stable, canary)",
			Tokenizer: Tokenizer{Path: "/tokenizers/llama"}},
		{Name: "qwen", Selector: "app=qwen"},
		{Name: "any", Split: []Target{{Model: "llama", Weight: 3}, {Model: "qwen", Weight: 1}}},
	}
	s := parse(t, twoModels)
	if diff := cmp.Diff(want, s.specs); diff != "" {
		t.Error(diff)
	}
	path := filepath.Join(t.TempDir(), "models.yaml")
	if err := os.WriteFile(path, []byte(twoModels), 0o600); err != nil {
		t.Fatal(err)
	}
	opened, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(s.specs, opened.specs); diff != "" {
		t.Error(diff)
	}
	if got := s.Tokenizer("llama"); got.Path != "/tokenizers/llama" {
		t.Errorf("tokenizer of llama: %v", got)
	}
	for _, name := range []string{"qwen", "gpt-4", "nobody"} { // an alias is resolved before
		if got := s.Tokenizer(name); got != (Tokenizer{}) {
			t.Errorf("tokenizer of %s: %v", name, got)
		}
	}
}

func TestAModelsFileThatCannotBeMeantIsRefusedWithTheReason(t *testing.T) {
	for what, c := range map[string]struct{ text, want string }{
		"nothing":                {"", "is empty"},
		"no models":              {"models: []", "there are 0 models"},
		"another document":       {"models: llama", "not as it should be"},
		"an unknown member":      {"models: [{name: a, weight: 3}]", "weight"},
		"a member twice":         {"models: [{name: a, name: b}]", "name"},
		"no name":                {"models: [{aliases: [a]}]", "a name has 0 bytes"},
		"a name too long":        {"models: [{name: " + strings.Repeat("n", maxNameBytes+1) + "}]", "a name has 254 bytes"},
		"a line break":           {`models: [{name: "a\nb"}]`, "printable"},
		"a name twice":           {"models: [{name: a}, {name: a}]", `"a" is taken`},
		"an alias as a name":     {"models: [{name: a, aliases: [b]}, {name: b}]", `"b" is taken`},
		"an alias twice":         {"models: [{name: a, aliases: [c]}, {name: b, aliases: [c]}]", `"c" is taken`},
		"its own alias":          {"models: [{name: a, aliases: [a]}]", `"a" is taken`},
		"no selector":            {"models: [{name: a, selector: 'app in'}]", "selector"},
		"a long selector":        {"models: [{name: a, selector: '" + strings.Repeat("s", maxSelectorBytes+1) + "'}]", "selector has 4097 bytes"},
		"a long path":            {"models: [{name: a, tokenizer: {path: /" + strings.Repeat("p", maxPathBytes) + "}}]", "tokenizer.path has 1025 bytes"},
		"a split to nobody":      {"models: [{name: a, split: [{model: b, weight: 1}]}]", `"b", which is the name of no model`},
		"a split to an alias":    {"models: [{name: a, aliases: [c], split: [{model: c, weight: 1}]}]", `"c", which is the name of no model`},
		"a split of a split":     {"models: [{name: a, split: [{model: b, weight: 1}]}, {name: b, split: [{model: c, weight: 1}]}, {name: c}]", "divided itself"},
		"a target twice":         {"models: [{name: a, split: [{model: b, weight: 1}, {model: b, weight: 1}]}, {name: b}]", `names "b" twice`},
		"no weight":              {"models: [{name: a, split: [{model: b, weight: 0}]}, {name: b}]", "all 0"},
		"a negative weight":      {"models: [{name: a, split: [{model: b, weight: -1}]}, {name: b}]", "within 0 to 1000"},
		"too much weight":        {"models: [{name: a, split: [{model: b, weight: 1001}]}, {name: b}]", "within 0 to 1000"},
		"a selector of a split":  {"models: [{name: a, selector: x=y, split: [{model: b, weight: 1}]}, {name: b}]", "has no workers"},
		"a tokenizer of a split": {"models: [{name: a, tokenizer: {path: /t}, split: [{model: b, weight: 1}]}, {name: b}]", "has no workers"},
	} {
		t.Run(what, func(t *testing.T) {
			if _, err := Parse([]byte(c.text)); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want it to say %q", err, c.want)
			}
		})
	}
}

func TestEverythingThatIsWrongIsSaidAtOnce(t *testing.T) {
	_, err := Parse([]byte("models: [{name: a, selector: 'in in'}, {name: a}, {name: b, split: [{model: c, weight: 2000}]}]"))
	for _, want := range []string{"selector", `"a" is taken`, `"c", which`, "2000"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want it to say %q too", err, want)
		}
	}
}

func TestCountsAreHeldToTheirLimits(t *testing.T) {
	spec := func(n int) (specs []Spec) {
		for i := range n {
			specs = append(specs, Spec{Name: fmt.Sprint("m", i)})
		}
		return specs
	}
	with := func(aliases, targets int) []Spec {
		specs := spec(maxModels)
		for i := range aliases {
			specs[0].Aliases = append(specs[0].Aliases, fmt.Sprint("a", i))
		}
		for i := range targets {
			specs[0].Split = append(specs[0].Split, Target{Model: fmt.Sprint("m", i), Weight: 1})
		}
		return specs
	}
	if _, err := New(with(maxAliases, maxTargets)); err != nil {
		t.Errorf("at the limits: %v", err)
	}
	for what, specs := range map[string][]Spec{
		"models": spec(maxModels + 1), "aliases": with(maxAliases+1, 0), "targets": with(0, maxTargets+1),
	} {
		if _, err := New(specs); err == nil {
			t.Errorf("one of the %s too many is let through", what)
		}
	}
	path := filepath.Join(t.TempDir(), "large")
	if err := os.WriteFile(path, make([]byte, maxFileBytes+1), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(path); err == nil || !strings.Contains(err.Error(), "is larger than") {
		t.Errorf("a large file: %v", err)
	}
	if _, err := Parse(make([]byte, maxFileBytes+1)); err == nil {
		t.Error("a long text is let through")
	}
}

func TestASetSharesNothingWithWhoMadeIt(t *testing.T) {
	given := []Spec{{Name: "a", Aliases: []string{"b"}, Split: []Target{{Model: "a", Weight: 1}}}}
	s, err := New(given)
	if err != nil {
		t.Fatal(err)
	}
	given[0].Aliases[0], given[0].Split[0].Weight = "changed", 7
	if s.specs[0].Aliases[0] != "b" || s.specs[0].Split[0].Weight != 1 {
		t.Error("the set changed with the entries it was made of")
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(twoModels))
	f.Add([]byte(`{"models":[{"name":"a","split":[{"model":"a","weight":1}]}]}`))
	f.Add([]byte("models: [{name: a, selector: '!x,y in (z)'}]"))
	f.Add([]byte("a: &a [*a]"))
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := Parse(data)
		if (s == nil) == (err == nil) {
			t.Fatalf("got both or neither of a set and an error: %v", err)
		}
	})
}
