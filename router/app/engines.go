package app

import (
	"cmp"

	"github.com/routerfleet/routerfleet/router/ingest"
	"github.com/routerfleet/routerfleet/router/kvevents"
	"github.com/routerfleet/routerfleet/router/workers"
)

// engines are the workers as ingest follows them: all that are not forgotten, whatever their state (peer-bootstrap B15).
type engines struct {
	workers    *workers.Registry
	configured kvevents.Configured
}

var _ ingest.Engines = engines{}

// Changed is closed when the list changes.
func (e engines) Changed() <-chan struct{} { return e.workers.Changed() }

// Engines lists them.
func (e engines) Engines() []ingest.Engine {
	listed := e.workers.Snapshot().Workers()
	out := make([]ingest.Engine, 0, len(listed))
	for _, l := range listed {
		w := l.Worker
		id := cmp.Or(w.UID(), string(w.ID())) // as policy.IndexRank
		out = append(out, ingest.Engine{
			ID: id, Identity: cmp.Or(w.UID(), w.URL().String()), Name: w.Name(),
			URL: w.URL().String(), Host: w.URL().Hostname(), Model: baseModel(w.Models()),
			Configured: e.configured, APIKey: w.APIKey,
		})
	}
	return out
}

// baseModel names the index of a worker's blocks: the first model that adapts no other. A worker that lists adapters only
// holds blocks of the model they adapt.
func baseModel(models []workers.Model) string {
	for _, m := range models {
		if m.Parent == "" {
			return m.ID
		}
	}
	if len(models) > 0 {
		return models[0].Parent
	}
	return ""
}
