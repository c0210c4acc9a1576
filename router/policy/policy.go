// Package policy chooses the rank that serves a request.
//
// A policy is a pure choice over the candidates it is given: it keeps no view of the workers of its own, so it
// cannot choose one that left. All policies are safe for concurrent use.
package policy

import (
	"fmt"
	"math/rand/v2"
	"strings"

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
	NameRoundRobin = "round_robin"
	NamePowerOfTwo = "power_of_two"
)

// Default is the policy used when none is named.
const Default = NamePowerOfTwo

// Names lists the policies New knows, sorted.
func Names() []string { return []string{NamePowerOfTwo, NameRoundRobin} }

// Rand gives uniformly distributed numbers. It must be safe for concurrent use.
type Rand interface {
	// IntN returns a number in [0, n); n > 0.
	IntN(n int) int
}

// Options are the collaborators of a policy.
type Options struct {
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
	case NamePowerOfTwo, "":
		return &powerOfTwo{rand: o.Rand}, nil
	case NameRoundRobin:
		return newRoundRobin(), nil
	}
	return nil, fmt.Errorf("policy %q is unknown: use one of %s", name, strings.Join(Names(), ", "))
}

// runtimeRand is the top-level generator of math/rand/v2: lock-free, seeded by the runtime.
type runtimeRand struct{}

func (runtimeRand) IntN(n int) int { return rand.IntN(n) }
