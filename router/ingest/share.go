package ingest

import "slices"

// growthShare is which part of an equal share an index may always grow by, at the cost of the largest.
const growthShare = 16

// share divides the bound of all indexes among them by what each holds, in blocks: each may have that and a sixteenth of an
// equal share more. While there is room the rest is divided equally; when there is not, the largest are cut to one level. So
// the sum keeps the bound, an index that is alone has all of it, and none can keep another from its equal share.
func share(total int, held []int) []int {
	n := len(held)
	limits := make([]int, n)
	slack, wanted := max(1, total/(growthShare*max(1, n))), 0
	for i, h := range held {
		limits[i] = h + slack
		wanted += limits[i]
	}
	if wanted <= total {
		for i := range limits {
			limits[i] += (total - wanted) / n
		}
		return limits
	}
	level, rest := 0, total
	for i, want := range slices.Sorted(slices.Values(limits)) {
		level = rest / (n - i)
		if want > level {
			break
		}
		rest -= want
	}
	for i := range limits {
		limits[i] = max(1, min(limits[i], level)) // 0 would be no bound
	}
	return limits
}

// divide has each index keep to its share.
func (p *Pump) divide() {
	if p.opt.MaxBlocks == 0 {
		return
	}
	held := p.blocks[:0]
	all := p.View().sections
	for _, s := range all {
		held = append(held, s.Index.Stats().Nodes)
	}
	p.blocks = held
	for i, limit := range share(p.opt.MaxBlocks, held) {
		if all[i].limit != limit {
			all[i].limit = limit
			all[i].Index.Limit(limit)
		}
	}
}
