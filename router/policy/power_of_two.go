package policy

import "github.com/routerfleet/routerfleet/router/workers"

// powerOfTwo draws two different ranks at random and takes the one of lower cost; equal cost is decided by which
// was drawn first, which is random too. Two choices already avoid the herd that always taking the minimum makes
// of several replicas with equal views.
type powerOfTwo struct{ rand Rand }

var _ Policy = (*powerOfTwo)(nil)

func (*powerOfTwo) Name() string { return NamePowerOfTwo }

func (p *powerOfTwo) Pick(_ Request, candidates []*workers.Rank) (*workers.Rank, bool) {
	switch n := len(candidates); n {
	case 0:
		return nil, false
	case 1:
		return candidates[0], true
	default:
		i := p.rand.IntN(n)
		j := p.rand.IntN(n - 1)
		if j >= i { // the second draw is over the others
			j++
		}
		a, b := candidates[i], candidates[j]
		if cost(b.Load()) < cost(a.Load()) {
			return b, true
		}
		return a, true
	}
}
