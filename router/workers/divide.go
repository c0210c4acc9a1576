package workers

import (
	"fmt"
	"slices"
	"strings"

	"github.com/routerfleet/routerfleet/router/models"
)

// served are the models an engine reports; none while it is not known.
func (f *facts) served() []Model {
	if f == nil {
		return nil
	}
	return f.models
}

// divide is what the worker serves here, by a models file:
//
//  1. the models that take it and that it reports
//  2. every adapter it reports, if it serves one of those in its own right: one process has one base model. Adapters
//     with an entry of their own are under 1.
//  3. if it reports nothing although it was asked: the one model that takes it, at the word of who wrote the file.
func (e *entry) divide(set *models.Set) []Model {
	reported := e.facts.served()
	if len(reported) == 0 {
		if e.asked && len(e.ep.taken) == 1 {
			return []Model{{ID: e.ep.taken[0]}}
		}
		return nil
	}
	taken := func(m Model) bool { return slices.Contains(e.ep.taken, m.ID) }
	base := slices.ContainsFunc(reported, func(m Model) bool { return m.Parent == "" && taken(m) })
	var list []Model
	for _, m := range reported {
		if taken(m) || base && m.Parent != "" && !set.Names(m.ID) {
			list = append(list, m)
		}
	}
	return list
}

// maxNamed bounds the models a reason names.
const maxNamed = 4

// otherModel says what a worker serves instead of what it was selected for.
func (e *entry) otherModel() string {
	var reported []string
	for _, m := range e.facts.served() {
		reported = append(reported, m.ID)
	}
	return fmt.Sprintf("it is selected for %s, but reports %s: correct the name or the selector, or what the engine calls the model (--served-model-name)",
		named(e.ep.taken), named(reported))
}

// named lists names in one line of bounded length.
func named(names []string) string {
	more := ""
	if len(names) > maxNamed {
		names, more = names[:maxNamed], fmt.Sprintf(" and %d more", len(names)-maxNamed)
	}
	quoted := make([]string, len(names))
	for i, name := range names {
		quoted[i] = fmt.Sprintf("%q", cut(name, maxReasonBytes))
	}
	return strings.Join(quoted, ", ") + more
}
