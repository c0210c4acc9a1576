package policy

import (
	"cmp"
	"maps"

	"github.com/routerfleet/routerfleet/router/index"
	"github.com/routerfleet/routerfleet/router/workers"
)

// KeySpace is where block keys are comparable: requests and blocks meet only inside one.
type KeySpace struct {
	// Model is the model's id as its engines know it.
	Model string
	// Scheme is how keys come about.
	Scheme index.Scheme
	// BlockSize is the tokens of a block.
	BlockSize int
	// Bigram says that the engine hashes pairs of tokens (speculative decoding of the EAGLE family).
	Bigram bool
}

// KeySource gives the block keys of one request's prompt. It belongs to the request: one goroutine at a time uses it,
// and it computes the keys of a space at the first call and keeps them.
type KeySource interface {
	// Keys returns the keys of the prompt's blocks in the space, the first block first. None when no key could equal an
	// engine's: LoRA, images, a tokenizer that is not known. The slice is not changed while the request
	// lives.
	Keys(KeySpace) []index.Key
}

// Matcher finds who holds the leading keys of a prompt.
type Matcher interface {
	Match(keys []index.Key, mode index.Mode, w index.Weights, r *index.Result)
}

var _ Matcher = (*index.Index)(nil)

// Catalog is the index of one key space.
type Catalog struct {
	Space   KeySpace
	Matcher Matcher
	// Mode is how depth is counted. The zero value, index.Deepest, is the default of routing.
	Mode index.Mode
}

// Trust is how far what an index says of a rank is believed.
type Trust uint8

// The degrees of trust. An unknown one counts as untrusted.
const (
	TrustUnknown Trust = iota
	// Trusted: the stream of events is whole as far as anybody can tell.
	Trusted
	// UpperBound: the model caches other groups of blocks too, so that a depth is the most there can be.
	UpperBound
	// Suspect: somebody disagrees (a sibling's digest, contradictions in the stream).
	Suspect
	// Untrusted: events are known to be missing.
	Untrusted

	trustEnd
)

var trustNames = [trustEnd]string{"unknown", "trusted", "upper_bound", "suspect", "untrusted"}

// String gives the degree as the decision table shows it.
func (t Trust) String() string {
	if t >= trustEnd {
		t = TrustUnknown
	}
	return trustNames[t]
}

// Holding is what the runtime knows of one rank's blocks.
type Holding struct {
	// Catalog is the index the rank's blocks are in. All ranks of one key space share one pointer.
	Catalog *Catalog
	// CapacityTokens is what the rank's cache can hold; 0 when nobody knows.
	CapacityTokens int
	// Standing says how far the blocks are believed now; nil counts as TrustUnknown.
	Standing Standing
}

// Standing is what changes of a rank's blocks while it is registered. It is asked at every decision, from any
// goroutine, and must not block.
type Standing interface {
	// Standing gives the trust, and a name for the life of what the rank holds: another one when that begins anew
	// (cleared, restarted, repaired), because what was measured before says nothing about it. index.RankView.State is
	// such a name.
	Standing() (trust Trust, life uint64)
}

// Steady is a standing that never changes.
type Steady struct {
	Trust Trust
	Life  uint64
}

var _ Standing = Steady{}

// Standing gives the fields.
func (s Steady) Standing() (Trust, uint64) { return s.Trust, s.Life }

// Directory says where ranks' blocks are looked up and how far they are believed.
type Directory interface {
	// View returns the latest published view: the same pointer until a rank is registered or forgotten. It never blocks
	// and is not nil.
	View() *View
}

// View is the ranks that are in an index. It is immutable, but for their standing.
type View struct{ holdings map[index.Rank]Holding }

// NewView copies the holdings. Ranks without a catalog are left out.
func NewView(holdings map[index.Rank]Holding) *View {
	v := &View{holdings: maps.Clone(holdings)}
	maps.DeleteFunc(v.holdings, func(_ index.Rank, h Holding) bool {
		return h.Catalog == nil || h.Catalog.Matcher == nil || h.Catalog.Space.BlockSize <= 0
	})
	for r, h := range v.holdings {
		if h.Standing == nil {
			h.Standing = Steady{}
			v.holdings[r] = h
		}
	}
	return v
}

// Of gives what is known of a rank's blocks; false when they are in no index.
func (v *View) Of(r index.Rank) (Holding, bool) {
	h, ok := v.holdings[r]
	return h, ok
}

// Static is a directory that never changes.
type Static struct{ view *View }

// NewStatic returns the directory that always says v.
func NewStatic(v *View) Static { return Static{v} }

// View returns the one view there is.
func (s Static) View() *View { return s.view }

// IndexRank names a rank as the indexes do: by pod UID, or by the id of a worker that is no pod.
func IndexRank(r *workers.Rank) index.Rank {
	w := r.Worker()
	return index.Rank{Worker: cmp.Or(w.UID(), string(w.ID())), DP: int32(r.DP())}
}
