package models

import (
	"math/bits"
	"slices"

	"k8s.io/apimachinery/pkg/labels"
)

// One is the set of a router that serves one model, on every worker.
func One(name string) (*Set, error) { return New([]Spec{{Name: name}}) }

// Lookup gives the model a name stands for and, where requests for it are divided, the targets. A name that is not in the
// file stands for itself: it may be an adapter's.
func (s *Set) Lookup(name string) (model string, split []Target) {
	if s == nil {
		return name, nil
	}
	if canonical, ok := s.canonical[name]; ok {
		name = canonical
	}
	if e := s.byName[name]; e != nil {
		return name, e.Split
	}
	return name, nil
}

// Choose gives the place of the target a key falls to. Equal keys fall to one target; of many different ones each target
// has its share by weight. A weight that changes moves no more keys than the change asks for where there are two targets.
// Some weight must be above 0.
func Choose(split []Target, key uint64) int {
	sum := 0
	for _, t := range split {
		sum += t.Weight
	}
	point, _ := bits.Mul64(key, uint64(sum)) // key/2^64 of the sum
	for i, t := range split {
		if point < uint64(t.Weight) {
			return i
		}
		point -= uint64(t.Weight)
	}
	return 0 // all weights are 0, which New refuses
}

// Specs lists the entries as the file has them. The caller must not change them.
func (s *Set) Specs() []Spec {
	if s == nil {
		return nil
	}
	return s.specs
}

// Serving lists the names that workers serve, sorted: all entries but those whose split does not lead to themselves.
func (s *Set) Serving() []string {
	if s == nil {
		return nil
	}
	var names []string
	for i := range s.specs {
		if s.specs[i].served() {
			names = append(names, s.specs[i].Name)
		}
	}
	slices.Sort(names)
	return names
}

// served tells whether workers serve the entry under its name.
func (e *Spec) served() bool {
	return len(e.Split) == 0 || slices.ContainsFunc(e.Split, func(t Target) bool { return t.Model == e.Name })
}

// Take lists the serving names, sorted, whose selector takes a worker. A worker may have several sets of labels (a pod
// behind two Services): one of them that matches is enough. Without any, no selector matches.
func (s *Set) Take(sets ...map[string]string) []string {
	var names []string
	for _, name := range s.Serving() {
		if selector := s.selectors[name]; selector.Empty() || slices.ContainsFunc(sets, func(set map[string]string) bool {
			return selector.Matches(labels.Set(set))
		}) {
			names = append(names, name)
		}
	}
	return names
}

// Names tells whether the file has an entry of this name that workers serve.
func (s *Set) Names(name string) bool {
	if s == nil {
		return false
	}
	e := s.byName[name]
	return e != nil && e.served()
}
