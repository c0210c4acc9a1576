package policy

import (
	"errors"
	"fmt"
	"time"

	"github.com/routerfleet/routerfleet/router/index"
)

// Knobs are the weights of cache_aware: routing.cacheAware of a fleet. Start from DefaultKnobs; zero is a legal value
// of each.
type Knobs struct {
	// HostTierPercent is what a block in host memory counts of one in device memory. Raising it sends more requests to
	// ranks that must copy blocks back first.
	HostTierPercent int
	// DiskTierPercent is the same for blocks on disk and in external stores.
	DiskTierPercent int
	// UntrustedPercent is what the holdings of an untrusted rank count, and of one whose ratio is not measured yet.
	UntrustedPercent int
	// PileUpTokens is how far a rank's queued prefill may be above the candidates' mean at least, in tokens. Raising it
	// lets more requests wait where their prefix is.
	PileUpTokens int
	// PredictTTL is how long a routed prompt counts as held by its rank before the engine has said so; 0 is off.
	PredictTTL time.Duration
	// PrefillScalePercent weighs tokens that wait or must be computed.
	PrefillScalePercent int
	// DecodeWeightPercent weighs tokens of requests past their first byte. 0 by default: the tokens an active request
	// stands for do it, and on the conversation trace 100 costs 7 points of hit ratio, 10 one point.
	DecodeWeightPercent int
}

// DefaultKnobs are the weights that need no tuning on public traces.
func DefaultKnobs() Knobs {
	return Knobs{
		HostTierPercent: 75, DiskTierPercent: 25, UntrustedPercent: 50, PileUpTokens: 16_384,
		PredictTTL: 5 * time.Second, PrefillScalePercent: 100, DecodeWeightPercent: 0,
	}
}

// Validate reports everything that is out of range at once.
func (k Knobs) Validate() error {
	return errors.Join(
		within("hostTierPercent", k.HostTierPercent, 100),
		within("diskTierPercent", k.DiskTierPercent, 100),
		within("untrustedPercent", k.UntrustedPercent, 100),
		within("pileUpTokens", k.PileUpTokens, maxTokens),
		within("predictTTLSeconds (in milliseconds)", int(k.PredictTTL.Milliseconds()), int(maxPredictTTL.Milliseconds())),
		within("prefillScalePercent", k.PrefillScalePercent, maxWeightPercent),
		within("decodeWeightPercent", k.DecodeWeightPercent, maxWeightPercent),
	)
}

func within(name string, got, most int) error {
	if got < 0 || got > most {
		return fmt.Errorf("%s is %d, want 0 to %d", name, got, most)
	}
	return nil
}

// tiers is what a block counts by its best tier, in percent.
func (k Knobs) tiers() index.Weights {
	return index.Weights{100, int32(k.HostTierPercent), int32(k.DiskTierPercent), int32(k.DiskTierPercent)}
}
