package index

// Held gives the tiers in which a rank holds a block, 0 if it does not. Writer only.
func (x *Index) Held(h *Holder, k Key) Tier {
	n, ok := x.locate(k)
	if !ok || h.gone {
		return 0
	}
	return x.sets.at(n.m.set()).tiers(h.id)
}

// Raise adds a tier to blocks that are known, whatever they follow: some engines copy blocks to another memory and name
// no parents. Keys that are not known are left out, for nobody can say what they follow. It returns how many were known.
func (x *Index) Raise(h *Holder, keys []Key, t Tier) (taken int) {
	t &= AllTiers
	if t == 0 || h.gone {
		return 0
	}
	for _, k := range keys {
		n, ok := x.locate(k)
		if !ok {
			continue
		}
		taken++
		from := n.m.set()
		to, before, after := x.sets.change(from, h.id, t, true)
		if before == after {
			continue
		}
		h.count(before, after, k)
		x.setOf(n, k, to, node{})
	}
	return taken
}

// State names the life of what the rank holds, as RankView.State does. Writer only.
func (h *Holder) State() uint64 { return h.state }
