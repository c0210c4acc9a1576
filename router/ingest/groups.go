package ingest

import (
	"slices"

	"github.com/routerfleet/routerfleet/router/kvevents"
)

// groups is what a rank's engine said of its KV cache groups (kv-events 4). Full-attention groups are indexed, and every
// other only where there is none: then those with a sliding window are.
type groups struct {
	full, windows, others []int32
	plain                 bool // blocks came without a group: one kind of attention
	// inherited says that the blocks came from a sibling that did not say of which groups they are. Until the engine names
	// one with full attention, or only others so many times, blocks of windows are not added and every removal counts: the
	// rank is said to hold less than it may, not more.
	inherited bool
	doubted   int
}

// learn takes the groups a batch names, before its events are applied, and tells whether blocks of windows were indexed
// that must not be any more, because the model has full attention too.
func (g *groups) learn(b *kvevents.Batch) (regrouped bool) {
	onWindows := !g.inherited && !g.hasFull() && len(g.windows) > 0
	for _, e := range b.Events {
		if s, ok := e.(*kvevents.Stored); ok {
			g.note(s)
		}
	}
	return onWindows && g.hasFull()
}

func (g *groups) note(s *kvevents.Stored) {
	if s.Group == kvevents.NoGroup {
		g.plain = true
		return
	}
	list := &g.others
	if g.doubted++; g.doubted >= maxGroups {
		g.inherited = false
	}
	switch s.GroupKind {
	case kvevents.GroupFull, kvevents.GroupUnspecified:
		list = &g.full
	case kvevents.GroupWindow:
		list = &g.windows
	}
	if len(*list) < maxGroups && !slices.Contains(*list, s.Group) {
		*list = append(*list, s.Group)
	}
}

// frees tells whether a removal in a group takes blocks out of the index.
func (g *groups) frees(group int32) bool { return g.inherited && !g.hasFull() || g.indexed(group) }

func (g *groups) hasFull() bool { return g.plain || len(g.full) > 0 }

// indexed tells whether a group's blocks are in the index. One that no stored block has named has none there.
func (g *groups) indexed(group int32) bool {
	switch {
	case group == kvevents.NoGroup, slices.Contains(g.full, group):
		return true
	default:
		return !g.inherited && !g.hasFull() && slices.Contains(g.windows, group)
	}
}

// upperBound says that the engine needs more than the blocks that are indexed: what we match is the most it can reuse.
func (g *groups) upperBound() bool { return len(g.windows) > 0 || len(g.others) > 0 }
