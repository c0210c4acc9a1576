package models

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestEveryNameStandsForOneModel(t *testing.T) {
	s := parse(t, twoModels)
	for name, want := range map[string]string{
		"llama": "llama", "gpt-4": "llama", "chat": "llama", "qwen": "qwen", "any": "any",
		"sql-adapter": "sql-adapter", "": "",
	} {
		model, split := s.Lookup(name)
		if model != want {
			t.Errorf("%q stands for %q, want %q", name, model, want)
		}
		if (len(split) > 0) != (name == "any") {
			t.Errorf("%q is divided: %v", name, split)
		}
	}
	if got := s.Serving(); !slices.Equal(got, []string{"llama", "qwen"}) {
		t.Errorf("workers serve %q", got)
	}
	for name, want := range map[string]bool{"llama": true, "any": false, "gpt-4": false, "": false} {
		if s.Names(name) != want {
			t.Errorf("the file names %q: %v, want %v", name, !want, want)
		}
	}
}

func TestWithoutAFileEveryNameStandsForItself(t *testing.T) {
	var s *Set
	if model, split := s.Lookup("x"); model != "x" || split != nil {
		t.Errorf("got %q %v", model, split)
	}
	if s.Serving() != nil || s.Specs() != nil || s.Names("x") || s.Tokenizer("x") != (Tokenizer{}) || s.Take(nil) != nil {
		t.Error("a set that is not there knows something")
	}
}

func TestAnAliasOfADividedNameIsDivided(t *testing.T) {
	s := parse(t, "models: [{name: a, aliases: [z], split: [{model: a, weight: 9}, {model: b, weight: 1}]}, {name: b}]")
	model, split := s.Lookup("z")
	if want := []Target{{"a", 9}, {"b", 1}}; model != "a" || !cmp.Equal(split, want) {
		t.Errorf("got %q %v", model, split)
	}
	if got := s.Serving(); !slices.Equal(got, []string{"a", "b"}) {
		t.Errorf("a name whose split leads to itself has workers too: got %q", got)
	}
}

func TestASelectorTakesTheWorkersItMatches(t *testing.T) {
	s := parse(t, `models: [{name: all}, {name: a, selector: "app=a"}, {name: ab, selector: "app in (a, b)"}, {name: bare, selector: "!app"},
		{name: virtual, split: [{model: a, weight: 1}]}]`)
	a, b, none := map[string]string{"app": "a"}, map[string]string{"app": "b"}, map[string]string(nil)
	for what, c := range map[string]struct {
		sets []map[string]string
		want []string
	}{
		"a":                     {[]map[string]string{a}, []string{"a", "ab", "all"}},
		"b":                     {[]map[string]string{b}, []string{"ab", "all"}},
		"no labels":             {[]map[string]string{none}, []string{"all", "bare"}},
		"behind two Services":   {[]map[string]string{b, none}, []string{"ab", "all", "bare"}},
		"nothing to be matched": {nil, []string{"all"}},
	} {
		if got := s.Take(c.sets...); !slices.Equal(got, c.want) {
			t.Errorf("%s: taken by %q, want %q", what, got, c.want)
		}
	}
}

func TestAKeyAlwaysFallsToTheSameTarget(t *testing.T) {
	split := []Target{{"a", 70}, {"b", 0}, {"c", 30}}
	rng := rand.New(rand.NewPCG(1, 2))
	for range 1000 {
		key := rng.Uint64()
		at := Choose(split, key)
		if split[at].Weight == 0 {
			t.Fatalf("key %d falls to a target without weight", key)
		}
		if Choose(slices.Clone(split), key) != at {
			t.Fatalf("key %d falls to two targets", key)
		}
	}
	for _, key := range []uint64{0, math.MaxUint64} {
		if at := Choose(split, key); at != map[uint64]int{0: 0, math.MaxUint64: 2}[key] {
			t.Errorf("key %d falls to %d", key, at)
		}
	}
	if at := Choose([]Target{{"a", 0}}, 7); at != 0 {
		t.Errorf("without any weight: %d", at)
	}
}

// Within four standard deviations, which a right implementation misses once in 16,000 seeds; the seed is fixed.
func TestManyKeysAreDividedByWeight(t *testing.T) {
	const n = 20_000
	for _, split := range [][]Target{
		{{"a", 95}, {"b", 5}}, {{"a", 1}, {"b", 1}, {"c", 1}}, {{"a", 999}, {"b", 1}}, {{"a", 0}, {"b", 1}},
	} {
		rng := rand.New(rand.NewPCG(3, 4))
		got, sum := make([]int, len(split)), 0
		for range n {
			got[Choose(split, rng.Uint64())]++
		}
		for _, target := range split {
			sum += target.Weight
		}
		for i, target := range split {
			p := float64(target.Weight) / float64(sum)
			if off := math.Abs(float64(got[i]) - n*p); off > 4*math.Sqrt(n*p*(1-p)) {
				t.Errorf("%v: target %d got %d of %d", split, i, got[i], n)
			}
		}
	}
}

func TestAWeightThatGrowsMovesKeysToItOnly(t *testing.T) {
	before, after := []Target{{"old", 95}, {"new", 5}}, []Target{{"old", 75}, {"new", 25}}
	rng := rand.New(rand.NewPCG(5, 6))
	moved := 0
	for range 10_000 {
		key := rng.Uint64()
		switch was, is := Choose(before, key), Choose(after, key); {
		case was == 1 && is == 0:
			t.Fatalf("key %d left the target whose weight grew", key)
		case was != is:
			moved++
		}
	}
	if moved == 0 {
		t.Error("nothing moved")
	}
}

func TestOneModelIsServedByEveryWorker(t *testing.T) {
	s, err := One("m")
	if err != nil {
		t.Fatal(err)
	}
	if got := s.Take(nil); !slices.Equal(got, []string{"m"}) {
		t.Errorf("got %q", got)
	}
	if _, err := One("bad\n"); err == nil {
		t.Error("a name nobody can type is let through")
	}
}
