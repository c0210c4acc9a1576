package app

import (
	"sync"
	"sync/atomic"

	"github.com/routerfleet/routerfleet/router/index"
	"github.com/routerfleet/routerfleet/router/ingest"
	"github.com/routerfleet/routerfleet/router/policy"
)

// Directory is the pump's view as policies read it. It is derived anew when the pump's view is another one.
type Directory struct {
	pump *ingest.Pump
	mode index.Mode

	mu      sync.Mutex // held to derive
	derived atomic.Pointer[derivedView]
}

type derivedView struct {
	from *ingest.View
	view *policy.View
}

var _ policy.Directory = (*Directory)(nil)

// NewDirectory gives the directory of a pump's ranks, their depths counted by mode.
func NewDirectory(pump *ingest.Pump, mode index.Mode) *Directory {
	return &Directory{pump: pump, mode: mode}
}

// View gives the same pointer while no rank comes, goes or is of another capacity.
func (d *Directory) View() *policy.View {
	from := d.pump.View()
	if known := d.derived.Load(); known != nil && known.from == from {
		return known.view
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	from = d.pump.View()
	if known := d.derived.Load(); known != nil && known.from == from {
		return known.view
	}
	next := &derivedView{from, d.derive(from)}
	d.derived.Store(next)
	return next.view
}

func (d *Directory) derive(from *ingest.View) *policy.View {
	catalogs := map[*ingest.Section]*policy.Catalog{}
	for _, s := range from.Sections() {
		catalogs[s] = &policy.Catalog{
			Space:   policy.KeySpace{Model: s.Key.Model, Scheme: s.Key.Scheme, BlockSize: s.Key.BlockSize, Bigram: s.Key.Bigram},
			Matcher: s.Index, Mode: d.mode,
		}
	}
	holdings := make(map[index.Rank]policy.Holding, len(from.Ranks()))
	for _, r := range from.Ranks() {
		holdings[r.Rank] = policy.Holding{Catalog: catalogs[r.Section], Standing: standing{r}, CapacityTokens: r.CapacityTokens()}
	}
	return policy.NewView(holdings)
}

// standing is a rank's trust as the policy weighs it.
type standing struct{ rank *ingest.Rank }

func (s standing) Standing() (policy.Trust, uint64) {
	status := s.rank.Status()
	trust := policy.Trusted
	switch {
	case status.Trust.Untrusted:
		trust = policy.Untrusted
	case status.Trust.Suspect:
		trust = policy.Suspect
	case status.Trust.UpperBound:
		trust = policy.UpperBound
	}
	return trust, status.Life
}
