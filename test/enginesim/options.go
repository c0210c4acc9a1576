package enginesim

import (
	"errors"
	"fmt"
	"math"
	"time"
)

// Options configure an Engine. The zero value is one rank of 8,000 pages of 64
// tokens that takes no time.
type Options struct {
	// DPSize is the number of data-parallel ranks; each has its own cache,
	// queue and clockwork. Default 1.
	DPSize int
	// Blocks is the pages of one rank. Default 8,000.
	Blocks int
	// PageSize is the tokens of one page. Default 64.
	PageSize int
	// PrefillTokensPerSecond is the speed of one rank over tokens that are not
	// cached. Default 0: prefill takes no time.
	PrefillTokensPerSecond float64
	// TokenInterval is the time between two tokens of an answer. Default 0: an
	// answer takes no time after its first token.
	TokenInterval time.Duration
	// MaxRunning is how many sequences of one rank prefill or decode at once.
	// Default 256.
	MaxRunning int
	// MaxQueued is how many more may wait in one rank; beyond it Submit answers
	// ErrQueueFull. Default 4,096.
	MaxQueued int
	// Bigram names pages by pairs of neighbouring tokens, as SGLang does with
	// EAGLE's speculative decoding: a page is complete one token later. Default
	// false.
	Bigram bool
	// Observer hears what is stored and removed. Default nil: nobody does.
	Observer Observer
}

func (o Options) withDefaults() Options {
	setDefault(&o.DPSize, 1)
	setDefault(&o.Blocks, 8_000)
	setDefault(&o.PageSize, 64)
	setDefault(&o.MaxRunning, 256)
	setDefault(&o.MaxQueued, 4_096)
	return o
}

func setDefault(field *int, value int) {
	if *field == 0 {
		*field = value
	}
}

// overlap is the tokens a page's key takes from beyond the page.
func (o Options) overlap() int {
	if o.Bigram {
		return 1
	}
	return 0
}

// Validate reports everything wrong at once.
func (o Options) Validate() error {
	o = o.withDefaults()
	errs := []error{
		between("DPSize", o.DPSize, MaxDPSize),
		between("Blocks", o.Blocks, MaxBlocks),
		between("PageSize", o.PageSize, MaxPageSize),
		between("MaxRunning", o.MaxRunning, math.MaxInt32),
		between("MaxQueued", o.MaxQueued, math.MaxInt32),
	}
	if rate := o.PrefillTokensPerSecond; rate < 0 || math.IsNaN(rate) || math.IsInf(rate, 0) {
		errs = append(errs, fmt.Errorf("PrefillTokensPerSecond: %v, want a number of at least 0 (0: no time)", rate))
	}
	if o.TokenInterval < 0 || o.TokenInterval > MaxTokenInterval {
		errs = append(errs, fmt.Errorf("TokenInterval: %v, want 0 to %v", o.TokenInterval, MaxTokenInterval))
	}
	return errors.Join(errs...)
}

func between(name string, got, most int) error {
	if got < 1 || got > most {
		return fmt.Errorf("%s: %d, want 1 to %d", name, got, most)
	}
	return nil
}
