package policy

import "github.com/routerfleet/routerfleet/router/workers"

// requestTokens is what one active request counts in tokens, so that requests without a known prompt length still
// spread. Source: the cost function of cache_aware; power_of_two is the same measure without a cache credit, so the
// two agree on what "loaded" means.
const requestTokens = 512

// percent is the unit of the cost function's sums: hundredths of a token.
const percent = 100

// cost is the load measure of power_of_two in tokens.
func cost(l workers.Load) int64 { return l.QueuedPrefillTokens + requestTokens*l.Active }

// terms are the parts of one candidate's cost, in hundredths of a token.
type terms struct{ prefill, decode, requests int64 }

func (t terms) total() int64 { return t.prefill + t.decode + t.requests }

// queued is what the engine has yet to compute of the prompts sent to it, as far as anybody can tell.
func queued(l workers.Load) int64 { return max(0, l.QueuedPrefillTokens-l.PrefilledTokens) }

// cost gives what a prompt would cost on a rank with this load of whose blocks credit tokens are counted on.
func (k Knobs) cost(l workers.Load, prompt, credit int64) terms {
	return terms{
		prefill:  int64(k.PrefillScalePercent) * max(0, queued(l)+prompt-credit),
		decode:   int64(k.DecodeWeightPercent) * l.DecodeTokens,
		requests: percent * requestTokens * l.Active,
	}
}

// credit is a holding in tokens: blocks by tier (in hundredths of a block), times trust (in percent), no more than the
// engine's cache holds (0: unknown), nor than the prompt has.
func credit(percentBlocks, blockSize, trustPercent, capacity, prompt int64) int64 {
	tokens := percentBlocks * blockSize * trustPercent / (percent * percent)
	if capacity > 0 {
		tokens = min(tokens, capacity)
	}
	return min(tokens, prompt)
}
