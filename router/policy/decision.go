package policy

import (
	"github.com/routerfleet/routerfleet/router/index"
	"github.com/routerfleet/routerfleet/router/workers"
)

// Reason says what decided a choice; its String is the metric label.
type Reason uint8

// The reasons of cache_aware. ReasonPolicy is every other policy's.
const (
	ReasonPolicy    Reason = iota // a policy that knows no cache
	CacheHit                      // the chosen rank holds some of the prompt
	PredictedHit                  // it will, by what it was sent moments ago, beyond what its index says
	CacheMiss                     // no candidate holds any of the prompt
	CacheOverridden               // some candidate does, but another without any of it was cheaper
	NoKeys                        // the prompt has no block keys
	NoIndex                       // no candidate is in an index
	Guarded                       // the cheapest candidate had too much to do
	ApproximateHit                // the chosen rank was sent some of the text lately; block keys are not known

	reasonEnd
)

var reasonNames = [reasonEnd]string{
	"policy", "cache_hit", "predicted_hit", "cache_miss", "cache_overridden", "no_keys", "no_index", "guard", "approximate_hit",
}

// String returns the reason's label value.
func (r Reason) String() string {
	if r >= reasonEnd {
		r = ReasonPolicy
	}
	return reasonNames[r]
}

// Decision is a choice with what it counts on. It is valid for the life of its request.
type Decision struct {
	// Rank is the chosen one.
	Rank *workers.Rank
	// Reason is what decided.
	Reason Reason
	// CreditTokens is how many of the prompt's tokens are counted on as cached, discounts applied: what need not be
	// computed. At most the request's PromptTokens.
	CreditTokens int

	promised  int32 // blocks its index holds, without predicted credit and discounts
	blockSize int
	depth     int         // the same, not cut to what an engine can reuse
	keys      []index.Key // of the prompt's whole blocks
	hash      uint64      // the rank's identity
	truth     *truth      // nil when there is nothing to compare with
	life      uint64      // of what the rank held at the decision
	texts     []index.Key // of the prompt's text, where it has no block keys
	chunks    int         // how many of those the rank was sent before
}

// PromisedTokens is how many tokens of the prompt the chosen rank's index holds: what Observe compares.
func (d Decision) PromisedTokens() int { return int(d.promised) * d.blockSize }

// Decider is a policy that says what its choice counts on, and learns. Its caller goes: Decide, take a lease with
// Decision.CreditTokens, Sent; and when the answer has told how many tokens were cached, Observe.
type Decider interface {
	Policy
	// Decide is Pick with its reasons. It changes nothing but metrics.
	Decide(Request, []*workers.Rank) (Decision, bool)
	// Sent says that the request goes to the decision's rank: until the engine announces the prompt's blocks, the rank
	// counts as having them.
	Sent(Decision)
	// Unsent takes Sent back: the engine could not be reached, or did not take the request.
	Unsent(Decision)
	// Observe says how many tokens of the prompt the engine found cached. Call it once, and only for an answer that is
	// complete and did report them: silence is not zero.
	Observe(d Decision, cachedTokens int)
	// Explain makes the table behind a decision without taking one.
	Explain(Request, []*workers.Rank) Table
}

// Deciding returns p as a Decider. A policy that is none counts on nothing and learns nothing.
func Deciding(p Policy) Decider {
	if d, ok := p.(Decider); ok {
		return d
	}
	return plain{p}
}

// plain makes a Decider of a policy that knows no cache.
type plain struct{ Policy }

var _ Decider = plain{}

func (p plain) Decide(r Request, candidates []*workers.Rank) (Decision, bool) {
	rank, ok := p.Pick(r, candidates)
	return Decision{Rank: rank}, ok
}

func (plain) Sent(Decision) {}

func (plain) Unsent(Decision) {}

func (plain) Observe(Decision, int) {}

// Explain lists the candidates' loads. It names no choice: to ask is to use up a turn or a draw.
func (p plain) Explain(r Request, candidates []*workers.Rank) Table {
	t := Table{Policy: p.Name(), Model: r.Model, PromptTokens: r.PromptTokens, Reason: ReasonPolicy.String(), Total: len(candidates)}
	for _, c := range candidates[:min(len(candidates), maxExplained)] {
		t.Candidates = append(t.Candidates, rowOf(c, c.Load()))
	}
	return t
}
