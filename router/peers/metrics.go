package peers

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
)

// Observe registers the gauges of a registry. Peers 0 and synced 1 is a replica alone; peers 0 and synced 0 is one that
// was not told yet, as without the right to read EndpointSlices.
func (r *Registry) Observe(metrics prometheus.Registerer) error {
	gauge := func(name, help string, value func(Set) float64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, func() float64 { return value(r.Set()) })
	}
	for _, c := range []prometheus.Collector{
		gauge("routerfleet_kv_bootstrap_peers", "Siblings known, terminating ones included.", func(s Set) float64 { return float64(len(s.Peers)) }),
		gauge("routerfleet_kv_bootstrap_peers_synced", "1 once a complete set of siblings was told, if only an empty one.", func(s Set) float64 {
			if s.Synced {
				return 1
			}
			return 0
		}),
	} {
		if err := metrics.Register(c); err != nil {
			return fmt.Errorf("peers: register metrics: %w", err)
		}
	}
	return nil
}
