package enginesim

import (
	"time"

	"github.com/routerfleet/routerfleet/test/enginesim/cache"
)

// Observer hears what the ranks cache; event publishing attaches here. Observe
// is called from the rank's own goroutine, in order, once for each step that
// changed something: one Step is what an engine publishes as one batch. It must
// not block, and what it is given is its own to keep but not to write to.
type Observer interface {
	Observe(Step)
}

// Step is the changes one rank made at one moment, in the order it made them.
type Step struct {
	Rank    int
	Time    time.Time
	Changes []Change
}

// Change is one of Stored, Removed, Cleared and Restarted.
type Change interface{ change() }

// Stored says that consecutive blocks of one chain were cached.
type Stored struct {
	Keys      []cache.Key
	Parent    *cache.Key // nil: Keys begin a chain
	Tokens    []uint32   // of the blocks, len(Keys)*PageSize; with Bigram the next one too
	PageSize  int
	Bigram    bool // Keys are over pairs of neighbouring tokens
	CacheSalt string
}

// Removed says that blocks were evicted, in this order (children first).
type Removed struct{ Keys []cache.Key }

// Cleared says that the rank holds nothing any more.
type Cleared struct{}

// Restarted says that the rank's process began anew: it holds nothing, and a real
// engine would not say so. It is the last change of its Step.
type Restarted struct{}

func (Stored) change()    {}
func (Removed) change()   {}
func (Cleared) change()   {}
func (Restarted) change() {}
