package telemetry

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

// WorkerLabel is the label that names a worker: "namespace/pod" or the static id, never a URL.
const WorkerLabel = "worker"

// vector is the part of a metric vector that forgetting needs.
type vector interface {
	prometheus.Collector
	DeletePartialMatch(prometheus.Labels) int
}

// WorkerSeries collects the vectors of a room that carry WorkerLabel, so that one call ends a worker's series in
// all of them. The zero value is ready; it is safe for concurrent use.
//
// A write after Forget makes the series again: write only while the worker is in a snapshot, or read the value at
// scrape instead, as package workers does.
type WorkerSeries struct {
	mu      sync.Mutex // guards vectors
	vectors []vector
}

// Register registers v and remembers it.
func (s *WorkerSeries) Register(reg prometheus.Registerer, v vector) error {
	if err := reg.Register(v); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.vectors = append(s.vectors, v)
	return nil
}

// Forget deletes every series of the worker and says how many there were.
func (s *WorkerSeries) Forget(worker string) (deleted int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, v := range s.vectors {
		deleted += v.DeletePartialMatch(prometheus.Labels{WorkerLabel: worker})
	}
	return deleted
}
