package policy

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/routerfleet/routerfleet/router/workers"
)

// Request is what a policy may know of a request.
type Request struct {
	// Model is the model asked for, as the client named it; empty when it named none.
	Model string
	// Key is a stable hash of the prompt: equal prompts have equal keys on every replica.
	Key uint64
	// PromptTokens is the prompt's length in tokens, an estimate when the prompt is text.
	PromptTokens int
	// Keys gives the prompt's block keys; nil when nobody computes them. With Keys, PromptTokens is the exact length
	// of the prompt the keys are of.
	Keys KeySource
}

// Policy chooses one of the candidates.
type Policy interface {
	// Name is the flag value that selects this policy.
	Name() string
	// Pick returns one of candidates, or false when there is none. It neither keeps nor changes the slice.
	// Candidates may differ from call to call, also within one request that is retried.
	Pick(Request, []*workers.Rank) (*workers.Rank, bool)
}

// Names of the policies, as --policy takes them.
const (
	NameCacheAware = "cache_aware"
	NamePowerOfTwo = "power_of_two"
	NameRoundRobin = "round_robin"
)

// Default is the policy used when none is named. Where no rank is in an index it chooses by load.
const Default = NameCacheAware

// Names lists the policies New knows, sorted.
func Names() []string { return []string{NameCacheAware, NamePowerOfTwo, NameRoundRobin} }

// Rand gives uniformly distributed numbers. It must be safe for concurrent use.
type Rand interface {
	// IntN returns a number in [0, n); n > 0.
	IntN(n int) int
}

// Options are the knobs and collaborators of a policy. Only cache_aware uses more than Rand.
type Options struct {
	// Knobs are the weights of cache_aware; nil means DefaultKnobs.
	Knobs *Knobs
	// Directory says where ranks' blocks are looked up; nil means nowhere: cache_aware then chooses by load.
	Directory Directory
	// Suspicions hears which ranks the engines' answers contradict; nil means nobody does.
	Suspicions Suspicions
	// Registerer receives the metrics of cache_aware. Default: nobody scrapes them.
	Registerer prometheus.Registerer
	// Now is the clock of predicted credit and of estimated loads. Default time.Now.
	Now func() time.Time
	// Rand breaks ties and draws samples; nil is the runtime's own generator. A *rand.Rand is not
	// safe for concurrent use; a test that wants a seed wraps one in a lock.
	Rand Rand
}

// New returns the policy called name; empty means Default. An unknown name is an error that lists the known ones.
func New(name string, o Options) (Policy, error) {
	if o.Rand == nil {
		o.Rand = runtimeRand{}
	}
	switch name {
	case NameCacheAware, "":
		return newCacheAware(o)
	case NamePowerOfTwo:
		return &powerOfTwo{rand: o.Rand}, nil
	case NameRoundRobin:
		return newRoundRobin(), nil
	}
	return nil, fmt.Errorf("policy %q is unknown: use one of %s", name, strings.Join(Names(), ", "))
}

// runtimeRand is the top-level generator of math/rand/v2: lock-free, seeded by the runtime.
type runtimeRand struct{}

func (runtimeRand) IntN(n int) int { return rand.IntN(n) }
