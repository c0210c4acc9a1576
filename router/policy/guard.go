package policy

// verdict is what the pile-up guard says of a candidate.
type verdict uint8

const (
	allowed verdict = iota
	queueTooLong
	tooManyRequests
)

// String gives the verdict as the decision table shows it.
func (v verdict) String() string {
	switch v {
	case queueTooLong:
		return "queued_prefill"
	case tooManyRequests:
		return "active_requests"
	}
	return ""
}

// guard is the pile-up guard: a prefix is no reason to wait behind everybody else who wants it. A rank is too busy when
//
//  1. its queued prefill is above the candidates' mean by more than max(PileUpTokens, 1.25 x the mean), or
//  2. it has more than 8 + 3 x the candidates' mean of active requests.
//
// Fewer than 1/2.25 of the candidates can be the one, and fewer than 1/3 the other, so that somebody is always left.
type guard struct {
	n              int64
	queued, active int64 // sums over the candidates
	pileUp         int64
}

func (g *guard) add(queued, active int64) {
	g.n++
	g.queued += queued
	g.active += active
}

// judge multiplies by n (and 4) instead of dividing, so that it is exact.
func (g *guard) judge(queued, active int64) verdict {
	above := g.n*queued - g.queued
	switch {
	case above > g.n*g.pileUp && 4*above > 5*g.queued:
		return queueTooLong
	case g.n*active > 8*g.n+3*g.active:
		return tooManyRequests
	}
	return allowed
}
