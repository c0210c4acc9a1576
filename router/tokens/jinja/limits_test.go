package jinja

import (
	"errors"
	"strings"
	"sync"
	"testing"
	"time"
)

var noVars = NewDict()

// Each of these would run for ever, or take all memory, in an engine without limits.
func TestATemplateThatDoesTooMuchIsEnded(t *testing.T) {
	for _, source := range []string{
		"{% for a in range(1000000000) %}{% endfor %}",
		"{% set r = range(100000) %}{% for a in r %}{% for b in r %}{% for c in r %}{% endfor %}{% endfor %}{% endfor %}",
		"{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
		"{% macro a() %}{{ b() }}{% endmacro %}{% macro b() %}{{ a() }}{% endmacro %}{{ a() }}",
		"{{ 'x' * 1000000000000 }}",
		"{{ [1] * 1000000000 }}",
		"{% set ns = namespace(s='x') %}{% for a in range(60) %}{% set ns.s = ns.s + ns.s %}{% endfor %}{{ ns.s }}",
		"{% set ns = namespace(s=[1]) %}{% for a in range(60) %}{% set ns.s = ns.s + ns.s %}{% endfor %}{{ ns.s|length }}",
		"{% set ns = namespace(s='xx') %}{% for a in range(60) %}{% set ns.s = ns.s.replace('x', ns.s) %}{% endfor %}",
		"{% set ns = namespace(s='x') %}{% for a in range(60) %}{% set ns.s = (ns.s,ns.s)|join(ns.s) %}{% endfor %}",
		"{% set s = 'x' * 30000000 %}{% for a in range(100000) %}{{ s|length }}{{ s.upper()|length }}{% endfor %}",
		"{% set s = 'x' * 1000000 %}{% for a in range(100000) %}{{ s }}{% endfor %}",
		"{% set l = range(100000)|list %}{% for a in l %}{% if -1 in l %}{% endif %}{% endfor %}",
		"{% set l = range(100000)|list %}{{ l|unique|list|length }}",
		"{% set l = range(100000)|list %}{% for a in l %}{{ l|tojson|length }}{% endfor %}",
	} {
		began := time.Now()
		text, err := renderString(source, noVars)
		if err == nil {
			t.Errorf("%s\n rendered %d bytes", source, len(text))
		}
		t.Logf("%.60s ended after %s: %v", source, time.Since(began), err)
	}
}

func TestDeepSourcesAreRefused(t *testing.T) {
	for _, part := range []string{"(", "[", "{'a':", "-", "not ", "a if ", "a if b else ", "m(", "a["} {
		if _, err := Parse("{{ " + strings.Repeat(part, 100_000)); err == nil {
			t.Errorf("100,000 times %q was parsed", part)
		}
	}
	for _, tag := range []string{"if a", "for a in b", "filter upper", "macro m()", "with a = 1", "set a", "call m()", "generation"} {
		if _, err := Parse(strings.Repeat("{% "+tag+" %}", 5_000)); err == nil {
			t.Errorf("5,000 times %q was parsed", tag)
		}
	}
	if _, err := Parse(strings.Repeat("x", maxSourceBytes+1)); err == nil {
		t.Error("a source beyond the limit was parsed")
	}
	if _, err := Parse(strings.Repeat("x", maxSourceBytes)); err != nil {
		t.Error(err)
	}
}

func TestTextIsBounded(t *testing.T) {
	template, err := Parse("{{ 'x' * 10 }}")
	if err != nil {
		t.Fatal(err)
	}
	if text, err := template.Render([]byte("pre"), noVars, Options{MaxBytes: 10}); err != nil || string(text) != "prexxxxxxxxxx" {
		t.Errorf("%q, %v", text, err)
	}
	text, err := template.Render([]byte("pre"), noVars, Options{MaxBytes: 9})
	if !errors.Is(err, ErrLimit) || string(text) != "pre" {
		t.Errorf("%q, %v", text, err)
	}
}

func TestARefusalCarriesTheTemplatesWords(t *testing.T) {
	_, err := renderString("{{ raise_exception('roles must ' ~ 'alternate') }}", noVars)
	raised, ok := errors.AsType[*RaisedError](err)
	if !ok || raised.Message != "roles must alternate" {
		t.Errorf("%v", err)
	}
}

func TestTheDayIsTheCallers(t *testing.T) {
	day := time.Date(2026, time.March, 5, 7, 8, 9, 0, time.UTC)
	for format, want := range map[string]string{
		"%d %b %Y": "05 Mar 2026", "%Y-%m-%d": "2026-03-05", "%B %-d, %Y": "March 5, 2026", "%H:%M:%S %%": "07:08:09 %", "%A %j": "Thursday 064",
	} {
		template, err := Parse("{{ strftime_now(" + `"` + format + `"` + ") }}")
		if err != nil {
			t.Fatal(err)
		}
		text, err := template.Render(nil, noVars, Options{Now: func() time.Time { return day }})
		if err != nil || string(text) != want {
			t.Errorf("%s: %q, %v, want %q", format, text, err, want)
		}
	}
	if _, err := renderString("{{ strftime_now('%Q') }}", noVars); err == nil {
		t.Error("a conversion that is unknown was accepted")
	}
}

// Runs share the template and the variables and change neither; the race detector watches.
func TestRunsDoNotMeet(t *testing.T) {
	vars := decode(t, []byte(`{"l":[1,2,3],"d":{"a":1,"b":[{"c":null}]}}`)).(*Dict)
	template, err := Parse("{% set ns = namespace(n=0) %}{% for a in l %}{% set ns.n = ns.n + a %}{% set d = 1 %}{% endfor %}{{ ns.n }}{{ d|tojson }}{% for k, v in d|dictsort %}{{ k }}{% endfor %}")
	if err != nil {
		t.Fatal(err)
	}
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			for range 50 {
				text, err := template.Render(nil, vars, Options{})
				if want := `6{"a": 1, "b": [{"c": null}]}ab`; err != nil || string(text) != want {
					t.Errorf("%q, %v", text, err)
				}
			}
		})
	}
	group.Wait()
}

// Whatever the source, there is a template or an error, and a run that ends.
func FuzzTemplate(f *testing.F) {
	for _, source := range []string{
		"{% for a in l %}{{ loop.index }}{{ a|tojson(indent=2) }}{% else %}x{% endfor %}",
		"{%- set ns = namespace(a=1) -%}{% set ns.a = l[::-1] %}{{ ns.a[0:1] ~ d.a.b|default('x') }}",
		"{% macro m(a, b=2) %}{{ a }}{{ caller() }}{% endmacro %}{% call m(1) %}{{ 'a'.split() }}{% endcall %}",
		"{% raw %}{{ x }}{% endraw %}{# c #}{% filter upper %}a{% endfilter %}", "{{ 1 if 2 is defined and not 3 in l else {'a': (1,)} }}",
	} {
		f.Add(source)
	}
	vars := decode(f, []byte(`{"l":[1,"a",null,{"b":[]}],"d":{"a":{"b":1.5}},"s":"text"}`)).(*Dict)
	f.Fuzz(func(t *testing.T, source string) {
		template, err := Parse(source)
		if err != nil {
			return
		}
		if text, err := template.Render(nil, vars, Options{MaxBytes: 1 << 16}); err == nil && len(text) > 1<<16 {
			t.Errorf("%d bytes of text", len(text))
		}
	})
}
