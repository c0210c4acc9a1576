package models

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"unicode"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/yaml"
)

// Set is a models file that was found in order.
type Set struct {
	specs     []Spec
	byName    map[string]*Spec  // entries, by their names
	canonical map[string]string // aliases, to the names of their entries
	selectors map[string]labels.Selector
}

// Open reads a models file.
func Open(path string) (*Set, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxFileBytes+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("read %s: %w", path, err)
	case len(data) > maxFileBytes:
		return nil, fmt.Errorf("%s is larger than %d bytes: it cannot be a list of models", path, maxFileBytes)
	}
	s, err := Parse(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return s, nil
}

// Parse reads the text of a models file, YAML or JSON, and reports everything that is wrong with it at once. A member
// that the router does not know is an error: it is a slip of the pen, or means something to a newer router.
func Parse(data []byte) (*Set, error) {
	if len(data) > maxFileBytes {
		return nil, fmt.Errorf("the models file has %d bytes, at most %d are allowed", len(data), maxFileBytes)
	}
	var file File
	if len(bytes.TrimSpace(data)) == 0 {
		return nil, errors.New("the models file is empty: it needs at least one entry under models")
	}
	if err := yaml.UnmarshalStrict(data, &file); err != nil {
		return nil, fmt.Errorf("the models file is not as it should be: %w", err)
	}
	return New(file.Models)
}

// New checks the entries, copies them and returns their set.
func New(specs []Spec) (*Set, error) {
	if len(specs) == 0 || len(specs) > maxModels {
		return nil, fmt.Errorf("there are %d models: give 1 to %d", len(specs), maxModels)
	}
	s := &Set{
		specs: slices.Clone(specs), byName: map[string]*Spec{}, canonical: map[string]string{},
		selectors: map[string]labels.Selector{},
	}
	var faults []error
	for i := range s.specs {
		faults = append(faults, s.add(&s.specs[i]))
	}
	for i := range s.specs {
		faults = append(faults, s.checkSplit(&s.specs[i]))
	}
	if err := errors.Join(faults...); err != nil {
		return nil, err
	}
	return s, nil
}

// add takes in an entry with its names.
func (s *Set) add(e *Spec) error {
	e.Aliases, e.Split = slices.Clone(e.Aliases), slices.Clone(e.Split)
	var faults []error
	fault := func(format string, args ...any) {
		faults = append(faults, fmt.Errorf("model %q: "+format, append([]any{shorten(e.Name)}, args...)...))
	}
	if len(e.Aliases) > maxAliases {
		fault("it has %d aliases, at most %d are allowed", len(e.Aliases), maxAliases)
		return errors.Join(faults...)
	}
	for _, name := range append([]string{e.Name}, e.Aliases...) {
		switch {
		case !goodName(name):
			fault("a name has %d bytes or characters nobody can type: 1 to %d printable bytes are allowed", len(name), maxNameBytes)
		case s.knows(name):
			fault("the name %q is taken: names and aliases are unique over all models", name)
		case name == e.Name:
			s.byName[name] = e
		default:
			s.canonical[name] = e.Name
		}
	}
	for what, path := range map[string]string{"tokenizer.path": e.Tokenizer.Path, "tokenizer.chatTemplate": e.Tokenizer.ChatTemplate} {
		if len(path) > maxPathBytes {
			fault("%s has %d bytes, at most %d are allowed", what, len(path), maxPathBytes)
		}
	}
	if err := s.addSelector(e); err != nil {
		fault("%w", err)
	}
	return errors.Join(faults...)
}

// addSelector reads the entry's selector.
func (s *Set) addSelector(e *Spec) error {
	if len(e.Selector) > maxSelectorBytes {
		return fmt.Errorf("selector has %d bytes, at most %d are allowed", len(e.Selector), maxSelectorBytes)
	}
	selector, err := labels.Parse(e.Selector)
	if err != nil {
		return fmt.Errorf("selector %q: %w", e.Selector, err)
	}
	s.selectors[e.Name] = selector
	return nil
}

// checkSplit says whether the entry's split leads to models that serve.
func (s *Set) checkSplit(e *Spec) error {
	if len(e.Split) == 0 {
		return nil
	}
	var faults []error
	fault := func(format string, args ...any) {
		faults = append(faults, fmt.Errorf("model %q: "+format, append([]any{shorten(e.Name)}, args...)...))
	}
	if len(e.Split) > maxTargets {
		fault("its split has %d targets, at most %d are allowed", len(e.Split), maxTargets)
		return errors.Join(faults...)
	}
	sum, seen := 0, map[string]bool{}
	for _, t := range e.Split {
		target := s.byName[t.Model]
		switch {
		case target == nil:
			fault("its split leads to %q, which is the name of no model here (an alias does not do)", shorten(t.Model))
		case target != e && len(target.Split) > 0:
			fault("its split leads to %q, which is divided itself", t.Model)
		case seen[t.Model]:
			fault("its split names %q twice", t.Model)
		}
		if t.Weight < 0 || t.Weight > maxWeight {
			fault("the weight of %q is %d: it must be within 0 to %d", shorten(t.Model), t.Weight, maxWeight)
		}
		seen[t.Model], sum = true, sum+t.Weight
	}
	if sum == 0 {
		fault("the weights of its split are all 0: nothing could be sent")
	}
	if !seen[e.Name] && (e.Selector != "" || e.Tokenizer != Tokenizer{}) {
		fault("its split does not lead to itself, so it has no workers: selector and tokenizer belong to its targets")
	}
	return errors.Join(faults...)
}

func (s *Set) knows(name string) bool { return s.byName[name] != nil || s.canonical[name] != "" }

// goodName says whether a client can send the name and a log can show it.
func goodName(name string) bool {
	if name == "" || len(name) > maxNameBytes || !utf8.ValidString(name) {
		return false
	}
	for _, r := range name {
		if !unicode.IsPrint(r) {
			return false
		}
	}
	return true
}

// shorten cuts a name that is too long to be one, for messages.
func shorten(name string) string {
	if len(name) <= maxNameBytes {
		return name
	}
	return name[:maxNameBytes] + "..."
}
