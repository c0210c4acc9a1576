package httpapi

import (
	"slices"
	"sync"
)

// faultSet is the faults that are on. Handlers ask it; the control API writes it.
type faultSet struct {
	mu     sync.Mutex // guards both; held for a scan of at most len(catalogue) entries
	active []Fault
	hits   map[FaultName]int64 // how often each took effect
}

func newFaultSet() *faultSet { return &faultSet{hits: make(map[FaultName]int64)} }

// set switches f on, in place of an active fault of its name.
func (s *faultSet) set(f Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.active = slices.DeleteFunc(s.active, named(f.Name))
	s.active = append(s.active, f)
}

// remove switches a fault off and says whether it was on.
func (s *faultSet) remove(name FaultName) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := len(s.active)
	s.active = slices.DeleteFunc(s.active, named(name))
	return len(s.active) < before
}

func (s *faultSet) removeAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.active = nil
}

func named(name FaultName) func(Fault) bool {
	return func(f Fault) bool { return f.Name == name }
}

// list returns the active faults and the hits of all, copied.
func (s *faultSet) list() ([]Fault, map[FaultName]int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	hits := make(map[FaultName]int64, len(s.hits))
	for name, n := range s.hits {
		hits[name] = n
	}
	return append([]Fault{}, s.active...), hits
}

// standing returns a standing fault if it is on.
func (s *faultSet) standing(name FaultName) (Fault, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.IndexFunc(s.active, named(name))
	if i < 0 {
		return Fault{}, false
	}
	s.hits[name]++
	return s.active[i], true
}

// takeRequest returns the faults that the next generation request suffers, and
// uses up one request of each.
func (s *faultSet) takeRequest() requestFaults {
	s.mu.Lock()
	defer s.mu.Unlock()
	var taken requestFaults
	kept := s.active[:0]
	for _, f := range s.active {
		if doc, _ := f.doc(); doc.Scope != ScopeRequest {
			kept = append(kept, f)
			continue
		}
		taken = append(taken, f)
		if f.Requests != 1 {
			f.Requests = max(0, f.Requests-1)
			kept = append(kept, f)
		}
	}
	s.active = kept
	return taken
}

// hit counts that a request's fault took effect.
func (s *faultSet) hit(name FaultName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hits[name]++
}

// requestFaults are the faults of one request.
type requestFaults []Fault

func (r requestFaults) get(name FaultName) (Fault, bool) {
	if i := slices.IndexFunc(r, named(name)); i >= 0 {
		return r[i], true
	}
	return Fault{}, false
}
