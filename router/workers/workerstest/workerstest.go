// Package workerstest makes registries for tests of the rooms above workers: real snapshots, ranks, load counters
// and breakers over engines the test runs itself.
package workerstest

import (
	"net/url"
	"testing"

	"github.com/routerfleet/routerfleet/router/workers"
)

// Worker describes one engine of a test.
type Worker struct {
	// ID is the worker's id and name; empty takes the URL's host.
	ID string
	// URL is the engine's base URL, such as an httptest.Server's.
	URL string
	// Models are the ids it serves.
	Models []string
	// DPSize is the number of ranks; 0 means 1.
	DPSize int
	// Labels are for the selectors of models.
	Labels map[string]string
	// NotReady and Terminating withdraw the worker.
	NotReady, Terminating bool
}

// Registry returns a registry of the workers with default options. Its Set, fed by Workers, changes them.
func Registry(tb testing.TB, ws ...Worker) *workers.Fixed {
	tb.Helper()
	return RegistryWith(tb, workers.Options{}, ws...)
}

// RegistryWith is Registry with options: breaker threshold and cool-down, clock, models, metrics, key.
func RegistryWith(tb testing.TB, o workers.Options, ws ...Worker) *workers.Fixed {
	tb.Helper()
	f, err := workers.NewFixed(o, Workers(tb, ws...)...)
	if err != nil {
		tb.Fatalf("make a fixed registry: %v", err)
	}
	return f
}

// Ranks returns all ranks of the workers, in order of worker id and rank, as a pool for policies.
func Ranks(tb testing.TB, ws ...Worker) []*workers.Rank {
	tb.Helper()
	var ranks []*workers.Rank
	for _, l := range Registry(tb, ws...).Snapshot().Workers() {
		ranks = append(ranks, l.Worker.Ranks()...)
	}
	return ranks
}

// Workers converts the descriptions for Fixed.Set.
func Workers(tb testing.TB, ws ...Worker) []workers.FixedWorker {
	tb.Helper()
	out := make([]workers.FixedWorker, 0, len(ws))
	for _, w := range ws {
		u, err := url.Parse(w.URL)
		if err != nil {
			tb.Fatalf("worker URL %q: %v", w.URL, err)
		}
		id := w.ID
		if id == "" {
			id = u.Host
		}
		out = append(out, workers.FixedWorker{
			ID: workers.ID(id), URL: u, Models: w.Models, DPSize: w.DPSize, Labels: w.Labels, NotReady: w.NotReady, Terminating: w.Terminating,
		})
	}
	return out
}
