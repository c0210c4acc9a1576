package ingest

import (
	"testing"
	"time"

	"github.com/routerfleet/routerfleet/router/index"
	"github.com/routerfleet/routerfleet/router/kvevents"
)

const testSeed = index.Seed(7)

// book is a ledger to be tested, with the events' bytes at hand.
type book struct {
	t *testing.T
	*ledger
	now time.Time
}

func newBook(t *testing.T, scheme index.Scheme) *book {
	s := newTestSection(scheme, 4)
	return &book{t, newLedger(s, index.Rank{Worker: "w"}), time.Unix(1, 0)}
}

func newTestSection(scheme index.Scheme, blockSize int) *Section {
	n := uint64(0)
	random := func() uint64 { n += 0x9e3779b97f4a7c15; return n }
	return &Section{Key: SectionKey{"m", scheme, blockSize, false}, Seed: testSeed, random: random,
		Index: index.New(index.Options{Rand: random})}
}

func (b *book) events(events ...kvevents.Event) {
	b.t.Helper()
	b.apply(b.now, &kvevents.Batch{Events: events})
}

// chain is a stored chain of blocks; in scheme tokens block n has chunk n.
func chain(parent int, blocks ...int) *kvevents.Stored {
	s := &kvevents.Stored{BlockSize: 4, Group: kvevents.NoGroup, Form: kvevents.IntegerForm, Tokens: 4 * len(blocks)}
	if parent >= 0 {
		s.HasParent, s.Parent = true, kvevents.Hash(parent)
	}
	for _, n := range blocks {
		s.Hashes = append(s.Hashes, kvevents.Hash(n))
		s.Chunks = append(s.Chunks, index.Chunk(n))
	}
	return s
}

func with(s *kvevents.Stored, change func(*kvevents.Stored)) *kvevents.Stored { change(s); return s }

func gone(blocks ...int) *kvevents.Removed {
	r := &kvevents.Removed{Group: kvevents.NoGroup, Form: kvevents.IntegerForm}
	for _, n := range blocks {
		r.Hashes = append(r.Hashes, kvevents.Hash(n))
	}
	return r
}

// root is a chain's parent.
const root = -1

// depth asks as a request would: for the blocks of a chain, from the root.
func (b *book) depth(blocks ...int) int {
	b.t.Helper()
	return b.saltedDepth("", blocks...)
}

func (b *book) saltedDepth(salt string, blocks ...int) int {
	var keys []index.Key
	key := b.section.Root(salt)
	for _, n := range blocks {
		if key = key.Next(index.Chunk(n)); b.section.Key.Scheme != index.SchemeTokens {
			key = index.Key(n)
		}
		keys = append(keys, key)
	}
	var r index.Result
	b.section.Index.Match(keys, index.Contiguous, index.DefaultWeights, &r)
	d, _ := r.Of(b.rank)
	return int(d)
}

func (b *book) want(depth int, blocks ...int) {
	b.t.Helper()
	if got := b.depth(blocks...); got != depth {
		b.t.Errorf("depth of %v is %d, want %d", blocks, got, depth)
	}
}

// empty checks that nothing is left anywhere.
func (b *book) empty() {
	b.t.Helper()
	for b.section.Index.Work(1 << 20) {
	}
	if n := b.section.Index.Stats().Nodes; n != 0 {
		b.t.Errorf("%d nodes are left", n)
	}
	if b.holder.Digest != 0 {
		b.t.Errorf("digest %x of nothing", b.holder.Digest)
	}
	if b.keys != nil && (b.keys.n != 0 || len(b.orphans.byHash) != 0) {
		b.t.Errorf("%d hashes and %d orphans are left", b.keys.n, len(b.orphans.byHash))
	}
	if len(b.extra) != 0 {
		b.t.Errorf("%d copies are left", len(b.extra))
	}
}

var allSchemes = []index.Scheme{index.SchemeSGLang, index.SchemeVLLM, index.SchemeTokens}

func forSchemes(t *testing.T, schemes []index.Scheme, f func(t *testing.T, b *book)) {
	for _, s := range schemes {
		t.Run(string(s), func(t *testing.T) { f(t, newBook(t, s)) })
	}
}

func TestStoredAndRemovedBlocksAreFollowed(t *testing.T) {
	forSchemes(t, allSchemes, func(t *testing.T, b *book) {
		b.events(chain(root, 1, 2, 3), chain(2, 4))
		b.want(3, 1, 2, 3)
		b.want(3, 1, 2, 4)
		b.events(gone(3))
		b.want(2, 1, 2, 3)
		b.want(3, 1, 2, 4)
		b.events(gone(4, 2, 1))
		b.want(0, 1, 2, 4)
		b.empty()
	})
}

func TestClearedLeavesNothing(t *testing.T) {
	forSchemes(t, allSchemes, func(t *testing.T, b *book) {
		b.events(chain(root, 1, 2), &kvevents.Cleared{}, chain(root, 5))
		b.want(0, 1, 2)
		b.want(1, 5)
		b.events(&kvevents.Cleared{})
		b.empty()
	})
}

// Store narrow, remove wide.
func TestTiers(t *testing.T) {
	forSchemes(t, allSchemes, func(t *testing.T, b *book) {
		host := func(s *kvevents.Stored) { s.Medium = kvevents.MediumHost }
		b.events(chain(root, 1), with(chain(root, 1), host))
		from := func(m kvevents.Medium) *kvevents.Removed { r := gone(1); r.Medium = m; return r }
		b.events(from(kvevents.MediumGPU))
		b.want(1, 1) // still in host memory
		b.events(from(kvevents.MediumHost))
		b.want(0, 1)
		b.events(with(chain(root, 1), host), chain(root, 1), from(kvevents.MediumUntagged)) // the other way round, then from everywhere
		b.want(0, 1)
		b.events(with(chain(root, 1), host), from(kvevents.MediumUnknown))
		b.want(0, 1)
		b.empty()

		b.events(with(chain(root, 2, 3), func(s *kvevents.Stored) { s.Medium = kvevents.MediumUnknown }))
		b.want(0, 2, 3)
		if got := b.counts.Dropped[DropMedium]; got != 2 {
			t.Errorf("%d blocks of an unknown medium were counted, want 2", got)
		}
	})
}

// vLLM announces a block once for each physical copy.
func TestABlockLeavesWithItsLastCopy(t *testing.T) {
	forSchemes(t, []index.Scheme{index.SchemeVLLM, index.SchemeTokens}, func(t *testing.T, b *book) {
		b.events(chain(root, 1, 2), chain(root, 1, 2), chain(root, 1))
		b.events(gone(2, 1))
		b.want(2, 1, 2)
		b.events(gone(2, 1))
		b.want(1, 1, 2)
		b.events(gone(1))
		b.want(0, 1, 2)
		b.empty()
		b.events(chain(root, 1), chain(root, 1), &kvevents.Cleared{}, chain(root, 1), gone(1))
		b.want(0, 1) // a clear takes the copies too
		b.empty()
	})
}

func TestOffloadedBlocksAreRaisedWithoutAParent(t *testing.T) {
	forSchemes(t, []index.Scheme{index.SchemeVLLM, index.SchemeTokens}, func(t *testing.T, b *book) {
		b.events(chain(root, 1, 2, 3))
		set := &kvevents.Stored{Hashes: []kvevents.Hash{2, 3, 9}, BlockSize: 4, Group: kvevents.NoGroup,
			Medium: kvevents.MediumHost, Form: kvevents.IntegerForm}
		b.events(set)
		if b.holder.Blocks != [4]int64{3, 2, 0, 0} {
			t.Errorf("blocks by tier: %v", b.holder.Blocks)
		}
		if b.counts.Dropped[DropUnkeyable] != 1 || !b.wanting {
			t.Errorf("block 9 is unknown: dropped %v, wanting %v", b.counts.Dropped, b.wanting)
		}
		if b.holder.Contradictions != 0 {
			t.Errorf("%d contradictions", b.holder.Contradictions)
		}
		from := gone(1, 2, 3)
		from.Medium = kvevents.MediumGPU
		b.events(from)
		if b.holder.Blocks != [4]int64{0, 2, 0, 0} {
			t.Errorf("blocks by tier: %v", b.holder.Blocks)
		}
	})
}

func full(g int32) func(*kvevents.Stored) {
	return func(s *kvevents.Stored) { s.Group, s.GroupKind = g, kvevents.GroupFull }
}

func window(g int32) func(*kvevents.Stored) {
	return func(s *kvevents.Stored) { s.Group, s.GroupKind, s.Window = g, kvevents.GroupWindow, 8 }
}

func from(g int32, r *kvevents.Removed) *kvevents.Removed { r.Group = g; return r }

func TestARemovalInOneGroupNeverDeletesAnothers(t *testing.T) {
	forSchemes(t, []index.Scheme{index.SchemeVLLM, index.SchemeTokens}, func(t *testing.T, b *book) {
		b.events(with(chain(root, 1, 2), full(0)), with(chain(root, 1, 2), window(1)), with(chain(root, 1, 2), full(2)))
		b.events(from(1, gone(1, 2)))
		b.want(2, 1, 2)
		b.events(from(2, gone(1, 2)))
		b.want(2, 1, 2)
		b.events(from(7, gone(1, 2))) // a group nobody stored in
		b.want(2, 1, 2)
		b.events(from(0, gone(2)))
		b.want(1, 1, 2)
		if !b.groups.upperBound() {
			t.Error("a model with window groups counts as an upper bound")
		}
	})
}

func TestOnlyAModelWithoutFullAttentionIsIndexedFromItsWindows(t *testing.T) {
	forSchemes(t, []index.Scheme{index.SchemeVLLM, index.SchemeTokens}, func(t *testing.T, b *book) {
		b.events(with(chain(root, 1, 2), window(0)))
		b.want(2, 1, 2)
		if !b.groups.upperBound() {
			t.Error("windows are an upper bound")
		}
		b.events(from(0, gone(2)))
		b.want(1, 1, 2)
		// It has full attention after all: what came of windows goes.
		b.events(with(chain(root, 5, 6), full(1)), with(chain(root, 5), window(0)))
		b.want(0, 1, 2)
		b.want(2, 5, 6)
		if !b.wanting {
			t.Error("the rank knows less than there is, and does not say so")
		}
		b.events(from(0, gone(5)))
		b.want(2, 5, 6)
		// States and encoders prove no prefix at all.
		b.events(with(chain(root, 8), func(s *kvevents.Stored) { s.Group, s.GroupKind = 4, kvevents.GroupOther }))
		b.want(0, 8)
	})
}

func TestPlainBlocksAreNoUpperBound(t *testing.T) {
	b := newBook(t, index.SchemeTokens)
	b.events(chain(root, 1))
	if b.groups.upperBound() {
		t.Error("one kind of attention is no upper bound")
	}
}

func TestAnAdaptersBlocksNeverPassForTheModels(t *testing.T) {
	b := newBook(t, index.SchemeSGLang)
	b.events(with(chain(root, 1), func(s *kvevents.Stored) { s.LoRA = "adapter" }))
	b.want(0, 1)
	if b.counts.Dropped[DropLoRA] != 1 {
		t.Errorf("dropped: %v", b.counts.Dropped)
	}
}

func TestACacheSaltIsARootOfItsOwn(t *testing.T) {
	b := newBook(t, index.SchemeTokens)
	b.events(with(chain(root, 1, 2), func(s *kvevents.Stored) { s.CacheSalt = "tenant" }), chain(2, 3))
	b.want(0, 1, 2)
	if got := b.saltedDepth("tenant", 1, 2, 3); got != 3 {
		t.Errorf("salted depth %d, want 3", got)
	}
}

func TestBytesAndIntegersNeverNameOneBlock(t *testing.T) {
	bytesForm := func(s *kvevents.Stored) { s.Form = kvevents.BytesForm }
	b := newBook(t, index.SchemeTokens)
	other := with(chain(root, 1), bytesForm)
	other.Chunks[0] = 2
	b.events(chain(root, 1), other)
	r := gone(1)
	r.Form = kvevents.BytesForm
	b.events(r)
	b.want(1, 1)
	s := newBook(t, index.SchemeSGLang)
	s.events(with(chain(root, 1), bytesForm))
	s.want(0, 1)
	if s.counts.Dropped[DropForm] != 1 {
		t.Errorf("dropped: %v", s.counts.Dropped)
	}
}

func TestBlocksOfAnotherSizeAreNotIndexed(t *testing.T) {
	size := func(n int32) func(*kvevents.Stored) { return func(s *kvevents.Stored) { s.BlockSize = n } }
	b := newBook(t, index.SchemeSGLang)
	b.events(with(chain(root, 1, 2), size(16)), with(chain(root, 3, 4), size(2)))
	b.want(0, 1)
	b.want(0, 3)
	if b.counts.Dropped[DropBlockSize] != 4 {
		t.Errorf("dropped: %v", b.counts.Dropped)
	}
	b.events(chain(root, 1), with(chain(1, 2), size(3))) // the last block of a chain may be short
	b.want(2, 1, 2)
}

func TestAHashOfTwoPrefixesIsAContradiction(t *testing.T) {
	forSchemes(t, allSchemes, func(t *testing.T, b *book) {
		b.events(chain(root, 1, 2, 3), chain(root, 3))
		b.want(3, 1, 2, 3)
		if b.holder.Contradictions != 1 {
			t.Errorf("%d contradictions, want 1", b.holder.Contradictions)
		}
		if b.suspect.is {
			t.Error("one contradiction makes nobody suspect")
		}
	})
}

func TestManyContradictionsInAMinuteMakeARankSuspect(t *testing.T) {
	forSchemes(t, allSchemes, func(t *testing.T, b *book) {
		b.events(chain(root, 1, 2))
		for range suspectLeast {
			b.events(chain(root, 2))
		}
		if b.suspect.is {
			t.Fatal("suspect at the limit")
		}
		b.events(chain(root, 2))
		if !b.suspect.is {
			t.Fatal("not suspect beyond the limit")
		}
		b.events(&kvevents.Cleared{})
		if b.suspect.is {
			t.Error("suspect after a clear")
		}
	})
}

func TestFewContradictionsOverHoursMakeNobodySuspect(t *testing.T) {
	b := newBook(t, index.SchemeSGLang)
	b.events(chain(root, 1, 2))
	for range 4 * suspectLeast {
		b.now = b.now.Add(10 * time.Second)
		b.events(chain(root, 2))
	}
	if b.suspect.is {
		t.Error("suspect by six contradictions a minute")
	}
}

func TestFewContradictionsAmongManyStoresMakeNobodySuspect(t *testing.T) {
	b := newBook(t, index.SchemeSGLang)
	b.events(chain(root, 1, 2))
	next := 10
	for range 2 * suspectLeast {
		blocks := make([]int, 2*suspectShare)
		for i := range blocks {
			blocks[i], next = next, next+1
		}
		b.events(chain(root, blocks...), chain(root, 2))
	}
	if b.suspect.is {
		t.Error("suspect by one contradiction in two thousand stores")
	}
}

func TestACycleMakesARankSuspectAtOnce(t *testing.T) {
	for name, s := range map[string]*kvevents.Stored{
		"a block that is its own parent":   chain(1, 1),
		"a chain that comes back to it":    chain(1, 2, 3, 1),
		"a chain that repeats a block":     chain(root, 1, 2, 3, 2),
		"a chain that repeats it at once":  chain(root, 1, 2, 2),
		"a chain that repeats its first":   chain(root, 1, 2, 1),
		"a parent known, and come back to": chain(9, 2, 9),
	} {
		b := newBook(t, index.SchemeSGLang)
		b.events(s)
		if !b.suspect.is {
			t.Errorf("%s: not suspect", name)
		}
	}
}
