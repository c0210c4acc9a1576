package policy

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/routerfleet/routerfleet/internal/invariant"
	"github.com/routerfleet/routerfleet/router/index"
	"github.com/routerfleet/routerfleet/router/workers"
)

func TestAPromptGoesWhereItsPrefixIs(t *testing.T) {
	r := newRig(t, 8)
	keys := chain(1, 20)
	r.hold(5, keys, 12, index.Device)
	r.hold(2, keys, 4, index.Device)
	d := r.expect("idle", request(keys), 5, CacheHit, 12*blockSize)
	if d.PromisedTokens() != 12*blockSize {
		t.Errorf("promised %d tokens, want %d", d.PromisedTokens(), 12*blockSize)
	}
	lease(7 * blockSize)(r.ranks[5]) // its queue and itself cost less than 12-4 blocks; the request term more
	r.expect("the deepest has more to do than it saves", request(keys), 2, CacheHit, 4*blockSize)
}

func TestTiersDiscountAHolding(t *testing.T) {
	for tier, blocks := range map[index.Tier]int{index.Device: 16, index.Host: 12, index.Disk: 4, index.External: 4} {
		r := newRig(t, 2)
		keys := chain(1, 16)
		r.hold(1, keys, 16, tier)
		r.expect(fmt.Sprint("tier ", tier), request(keys), 1, CacheHit, blocks*blockSize)
	}
}

func TestTrustDiscountsAHolding(t *testing.T) {
	for _, c := range []struct {
		trust   Trust
		percent int
	}{{Trusted, 100}, {UpperBound, 50}, {Suspect, 50}, {Untrusted, 50}, {TrustUnknown, 50}} {
		r := newRig(t, 2)
		keys := chain(1, 16)
		r.hold(1, keys, 16, index.Device)
		r.stand(1).trust = c.trust
		r.expect(c.trust.String(), request(keys), 1, CacheHit, 16*blockSize*c.percent/100)
	}
}

func TestCreditIsNoMoreThanTheCacheHolds(t *testing.T) {
	r := newRig(t, 2)
	keys := chain(1, 16)
	r.hold(1, keys, 16, index.Device)
	r.set(1, func(h *Holding) { h.CapacityTokens = 5 * blockSize })
	r.expect("small cache", request(keys), 1, CacheHit, 5*blockSize)
}

func TestWithoutKeysTheLoadDecides(t *testing.T) {
	r := newRig(t, 3)
	keys := chain(1, 4)
	r.hold(0, keys, 4, index.Device)
	lease(100)(r.ranks[0])
	lease(100)(r.ranks[2])
	r.expect("nobody computes keys", Request{Model: "m", PromptTokens: 50}, 1, NoKeys, 0)
	r.expect("the prompt has none", Request{Model: "m", PromptTokens: 50, Keys: &fixedKeys{size: blockSize}}, 1, NoKeys, 0)
	r.expect("nobody holds it", request(chain(2, 4)), 1, CacheMiss, 0)
	r.holdings = nil
	r.publish()
	r.expect("no indexes", request(keys), 1, NoIndex, 0)
}

func TestAHolderThatIsBusyIsOverriddenAndSaid(t *testing.T) {
	r := newRig(t, 2)
	keys := chain(1, 4)
	r.hold(0, keys, 4, index.Device)
	lease(10_000)(r.ranks[0])
	r.expect("busy", request(keys), 1, CacheOverridden, 0)
}

func TestTheGuardSendsAPileElsewhere(t *testing.T) {
	r := newRig(t, 3)
	keys := chain(1, 4_000) // 64,000 tokens
	r.hold(0, keys, 4_000, index.Device)
	lease(24_000)(r.ranks[0])
	r.expect("16,000 above the mean", request(keys), 0, CacheHit, 64_000)
	lease(2_000)(r.ranks[0])
	if d := r.decide(request(keys)); d.Reason != Guarded || d.Rank == r.ranks[0] {
		t.Fatalf("17,333 above the mean: got %s for %s", d.Rank.Worker().ID(), d.Reason)
	}
	table := r.policy.Explain(request(keys), r.ranks)
	if last := table.Candidates[2]; last.Worker != "w00" || last.Guard != "queued_prefill" || last.Chosen {
		t.Errorf("the table says %+v of the guarded rank", last)
	}
}

func TestRanksOfDifferentBlockSizesAreAskedInTheirOwnIndex(t *testing.T) {
	r := newRig(t, 4)
	other := index.New(index.Options{})
	wide := &Catalog{Space: KeySpace{Model: "m", Scheme: index.SchemeTokens, BlockSize: 64}, Matcher: other}
	holder, err := other.Rank(r.holders[3].Rank())
	if err != nil {
		t.Fatal(err)
	}
	narrowKeys, wideKeys := chain(1, 16), chain(2, 4)
	other.Store(holder, index.Root, wideKeys, index.Device)
	r.set(3, func(h *Holding) { h.Catalog = wide })
	r.set(2, func(h *Holding) { h.Catalog = nil }) // in no index
	r.hold(0, narrowKeys, 8, index.Device)
	source := &twoSpaces{narrow: narrowKeys, wide: wideKeys}
	q := Request{Model: "m", PromptTokens: 16*blockSize + 1, Keys: source}
	d := r.expect("the wide one holds all", q, 3, CacheHit, 4*64)
	if d.PromisedTokens() != 4*64 {
		t.Errorf("promised %d tokens, want %d", d.PromisedTokens(), 4*64)
	}
	if source.asked != 2 {
		t.Errorf("keys were asked for %d times, want once for each of two spaces", source.asked)
	}
}

type twoSpaces struct {
	narrow, wide []index.Key
	asked        int
}

func (s *twoSpaces) Keys(space KeySpace) []index.Key {
	s.asked++
	if space.BlockSize == 64 {
		return s.wide
	}
	return s.narrow
}

// arrange gives a rig random holdings and loads around one prompt.
func arrange(t *testing.T, r *rand.Rand) (*rig, Request) {
	x := newRig(t, 2+r.IntN(12), func(k *Knobs) { k.DecodeWeightPercent = r.IntN(2) * 30 })
	keys := chain(r.Uint64(), 1+r.IntN(300))
	for i := range x.ranks {
		if r.IntN(2) == 0 {
			x.hold(i, keys, 1+r.IntN(len(keys)), []index.Tier{index.Device, index.Host, index.Device | index.Disk}[r.IntN(3)])
		}
		x.stand(i).trust = Trust(r.IntN(int(trustEnd)))
		x.set(i, func(h *Holding) {
			h.CapacityTokens = r.IntN(2) * r.IntN(len(keys)*blockSize)
		})
		for range r.IntN(4) {
			l, _ := x.ranks[i].Acquire(r.IntN(3) * 700)
			if r.IntN(2) == 0 {
				l.FirstByte()
			}
		}
	}
	if r.IntN(3) == 0 {
		for range 30 {
			lease(1_000)(x.ranks[r.IntN(len(x.ranks))])
		}
	}
	return x, request(keys)
}

func TestTheOrderOfCandidatesNeverChangesTheChoice(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 11))
		x, q := arrange(t, r)
		want := x.decide(q)
		for range 5 {
			shuffled := slices.Clone(x.ranks)
			r.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
			got, _ := x.policy.Decide(q, shuffled)
			if got.Rank != want.Rank || got.Reason != want.Reason || got.CreditTokens != want.CreditTokens {
				t.Fatalf("seed %d: got %s for %s, in order it was %s for %s", seed, got.Rank.Worker().ID(), got.Reason, want.Rank.Worker().ID(), want.Reason)
			}
		}
	}
}

// The twin computes each cost in floats, straight from the design's formula, and never chooses a dearer rank among those
// the guard's words allow.
func TestTheChoiceIsTheCheapestByTheFormula(t *testing.T) {
	for seed := range uint64(300) {
		x, q := arrange(t, rand.New(rand.NewPCG(seed, 12)))
		k := x.policy.knobs
		var result index.Result
		x.index.Match(q.Keys.Keys(x.catalog.Space), index.Deepest, k.tiers(), &result)
		var meanQueue, meanActive float64
		for _, rank := range x.ranks {
			meanQueue += float64(rank.Load().QueuedPrefillTokens) / float64(len(x.ranks))
			meanActive += float64(rank.Load().Active) / float64(len(x.ranks))
		}
		costs, best := make([]float64, len(x.ranks)), 1e18
		for i, rank := range x.ranks {
			h, _ := x.board.View().Of(IndexRank(rank))
			_, weighted := result.Of(IndexRank(rank))
			believed := 0.5
			if x.stand(i).trust == Trusted {
				believed = 1
			}
			credit := float64(weighted) / 100 * blockSize * believed
			if h.CapacityTokens > 0 {
				credit = min(credit, float64(h.CapacityTokens))
			}
			l := rank.Load()
			costs[i] = max(0, float64(l.QueuedPrefillTokens)+float64(q.PromptTokens)-credit) +
				float64(k.DecodeWeightPercent)/100*float64(l.DecodeTokens) + 512*float64(l.Active)
			if above := float64(l.QueuedPrefillTokens) - meanQueue; above <= max(16_384, 1.25*meanQueue) && float64(l.Active) <= 8+3*meanActive {
				best = min(best, costs[i])
			}
		}
		d := x.decide(q)
		at := slices.Index(x.ranks, d.Rank)
		if costs[at] > best+2 { // within one token, and credit is rounded down to whole ones
			t.Fatalf("seed %d: chose rank %d at %.1f, the cheapest allowed costs %.1f of %v", seed, at, costs[at], best, costs)
		}
	}
}

func TestTiesGoByTheRequestsKeyAndAgreeOnEveryReplica(t *testing.T) {
	a, b := newRig(t, 8), newRig(t, 8)
	counts := map[*workers.Rank]int{}
	const draws = 4_000
	for key := range uint64(draws) {
		q := Request{Model: "m", Key: key * 77, PromptTokens: 100}
		x, y := a.decide(q), b.decide(q)
		if x.Rank.Worker().ID() != y.Rank.Worker().ID() {
			t.Fatalf("key %d: two replicas chose %s and %s", key, x.Rank.Worker().ID(), y.Rank.Worker().ID())
		}
		counts[x.Rank]++
		// Without a rank that was not chosen the choice stays.
		rest := slices.DeleteFunc(slices.Clone(a.ranks), func(r *workers.Rank) bool { return r != x.Rank && r == a.ranks[key%8] })
		if z, _ := a.policy.Decide(q, rest); z.Rank != x.Rank {
			t.Fatalf("key %d: the choice moved when another rank left", key)
		}
	}
	for _, rank := range a.ranks {
		if c := counts[rank]; c < 400 || c > 600 { // 500 +- 5 sigma
			t.Errorf("%s was chosen %d times of %d among 8", rank.Worker().ID(), c, draws)
		}
	}
}

func TestCostsWithinOneTokenAreEqual(t *testing.T) {
	for off, tie := range map[int]bool{0: true, 1: true, 2: false} {
		r := newRig(t, 2)
		lease(1_000)(r.ranks[0])
		lease(1_000 + off)(r.ranks[1])
		chosen := map[*workers.Rank]bool{}
		for key := range uint64(64) {
			chosen[r.decide(Request{Model: "m", Key: key, PromptTokens: 10}).Rank] = true
		}
		if got := len(chosen) == 2; got != tie {
			t.Errorf("%d tokens apart: tied %v, want %v", off, got, tie)
		}
	}
}

func TestACandidateThatIsNotOfferedIsNotChosen(t *testing.T) {
	r := newRig(t, 4)
	keys := chain(1, 10)
	r.hold(0, keys, 10, index.Device)
	r.decide(request(keys)) // the roster of all is known
	d, ok := r.policy.Decide(request(keys), r.ranks[1:])
	if !ok || d.Rank == r.ranks[0] || d.CreditTokens != 0 {
		t.Fatalf("chose %v with %d tokens of credit", d.Rank, d.CreditTokens)
	}
	if _, ok := r.policy.Decide(request(keys), nil); ok {
		t.Fatal("chose of nothing")
	}
}

func TestPredictedCreditLastsItsTimeAndIsNotPromised(t *testing.T) {
	r := newRig(t, 4)
	keys := chain(1, 40)
	first := r.decide(request(keys))
	r.policy.Sent(first)
	at := slices.Index(r.ranks, first.Rank)
	second := r.expect("just sent", request(branch(keys, 30, 9, 50)), at, PredictedHit, 30*blockSize)
	if second.PromisedTokens() != 0 {
		t.Errorf("promised %d tokens that no index holds", second.PromisedTokens())
	}
	r.now = r.now.Add(4999 * time.Millisecond)
	r.expect("within the TTL", request(keys), at, PredictedHit, 40*blockSize)
	r.now = r.now.Add(time.Millisecond)
	if d := r.decide(request(keys)); d.Reason != CacheMiss {
		t.Errorf("after the TTL: %s", d.Reason)
	}
}

func TestPredictedCreditEndsWithTheLifeOfItsRank(t *testing.T) {
	r := newRig(t, 4)
	keys := chain(1, 40)
	d := r.decide(request(keys))
	at := slices.Index(r.ranks, d.Rank)
	r.policy.Sent(d)
	r.expect("just sent", request(keys), at, PredictedHit, 40*blockSize)

	r.stand(at).life++ // the engine restarted, or cleared its cache
	if row := r.rowOf(request(keys), at); row.PredictedBlocks != 0 || row.CreditTokens != 0 {
		t.Errorf("begun anew it is credited with what it was sent before: %+v", row)
	}
	r.policy.Sent(d) // decided before, sent after
	if row := r.rowOf(request(keys), at); row.PredictedBlocks != 0 {
		t.Errorf("a decision of the life before credits it: %+v", row)
	}

	again := r.decide(request(keys))
	r.policy.Sent(again)
	now := slices.Index(r.ranks, again.Rank)
	r.expect("sent in the new life", request(keys), now, PredictedHit, 40*blockSize)
	if n := r.policy.predictions.records(); n > 80 {
		t.Errorf("%d records for 40 blocks of at most two ranks", n)
	}
}

// Some records are of the life before and some of this one: only what was sent in this one counts, as far as it has no hole.
func TestPredictionsOfTwoLivesAreNotJoined(t *testing.T) {
	r := newRig(t, 1)
	keys := chain(1, 40)
	r.policy.Sent(r.decide(request(keys)))
	r.stand(0).life++
	r.policy.Sent(r.decide(request(keys[:10])))
	if row := r.rowOf(request(keys), 0); row.PredictedBlocks != 10 {
		t.Errorf("%d blocks are predicted, want the 10 sent in this life", row.PredictedBlocks)
	}
}

func TestAPromptThatWasNotTakenIsNotPredicted(t *testing.T) {
	r := newRig(t, 4)
	keys := chain(1, 40)
	d := r.decide(request(keys))
	r.policy.Sent(d)
	r.policy.Unsent(d)
	if again := r.decide(request(keys)); again.Reason != CacheMiss {
		t.Errorf("a prompt that no engine took is decided by %s", again.Reason)
	}
	r.policy.Sent(d)
	if again := r.decide(request(keys)); again.Reason != PredictedHit || again.Rank != d.Rank {
		t.Errorf("sent again it is decided by %s", again.Reason)
	}
}

func TestABlockThatThePromptDoesNotFillIsNotPredicted(t *testing.T) {
	r := newRig(t, 1)
	keys := chain(1, 5)
	q := request(keys)
	q.PromptTokens = 4*blockSize + 7 // the fifth key is of 7 tokens
	r.policy.Sent(r.decide(q))
	if row := r.rowOf(q, 0); row.PredictedBlocks != 4 || row.CreditTokens != 4*blockSize {
		t.Errorf("credited is %+v, want the 4 blocks an engine keeps", row)
	}
	if n := r.policy.predictions.records(); n != 4 {
		t.Errorf("%d records for 4 whole blocks", n)
	}
	short := request(chain(2, 1))
	short.PromptTokens = 3
	r.policy.Sent(r.decide(short))
	if n := r.policy.predictions.records(); n != 4 {
		t.Errorf("%d records after a prompt shorter than a block", n)
	}
}

func TestPredictedCreditContinuesWhatTheIndexHolds(t *testing.T) {
	r := newRig(t, 4)
	keys := chain(1, 40)
	r.hold(2, keys, 10, index.Host)
	d := r.expect("10 blocks in host memory", request(keys), 2, CacheHit, 10*blockSize*75/100)
	r.policy.Sent(d)
	r.expect("and 30 that are being computed", request(keys), 2, PredictedHit, 10*blockSize*75/100+30*blockSize)
	r.hold(2, keys, 40, index.Device)
	r.expect("announced", request(keys), 2, CacheHit, 40*blockSize)
}

func TestOnlyWhatTheIndexLacksIsPredicted(t *testing.T) {
	r := newRig(t, 2)
	keys := chain(1, 40)
	r.hold(1, keys, 10, index.Device)
	r.policy.Sent(r.decide(request(keys)))
	if n := r.policy.predictions.records(); n != 30 {
		t.Errorf("%d records for 30 blocks that are not in the index", n)
	}
}

// A rank's old records lie before its depth; what another candidate's depth finds of them is not its prediction.
func TestPredictionsAreReadFromEachRanksOwnDepth(t *testing.T) {
	r := newRig(t, 2)
	keys := chain(1, 40)
	one := r.ranks[:1]
	d, _ := r.policy.Decide(request(branch(keys, 3, 7, 20)), one)
	r.policy.Sent(d) // records of levels 0 to 2
	r.hold(0, keys, 5, index.Device)
	d, _ = r.policy.Decide(request(keys), one)
	r.policy.Sent(d) // records from level 5 on
	r.expect("the other rank holds nothing", request(keys), 0, PredictedHit, 40*blockSize)
}

func TestPickIsDecideAndSent(t *testing.T) {
	r := newRig(t, 8)
	keys := chain(1, 100)
	first, _ := r.policy.Pick(request(keys), r.ranks)
	for range 20 {
		if again, _ := r.policy.Pick(request(keys), r.ranks); again != first {
			t.Fatal("a prompt that was just sent went elsewhere")
		}
	}
}

func TestDecidingChangesNothing(t *testing.T) {
	r := newRig(t, 8)
	q := request(chain(1, 100))
	for range 3 {
		if d := r.decide(q); d.Reason != CacheMiss {
			t.Fatalf("a decision nobody followed left %s", d.Reason)
		}
		r.policy.Explain(q, r.ranks)
	}
}

func TestDecisionsAreCountedByReason(t *testing.T) {
	r := newRig(t, 2)
	keys := chain(1, 4)
	r.hold(0, keys, 4, index.Device)
	r.decide(request(keys))
	r.decide(request(keys))
	r.decide(Request{Model: "m"})
	r.policy.Explain(request(keys), r.ranks) // no decision
	for reason, want := range map[Reason]float64{CacheHit: 2, NoKeys: 1, CacheMiss: 0} {
		if got := r.counted("routerfleet_policy_decisions_total", "policy", NameCacheAware, "reason", reason.String()); got != want {
			t.Errorf("%s: %v, want %v", reason, got, want)
		}
	}
}

func TestOtherPoliciesDecideToo(t *testing.T) {
	pool := ranks(t, 2)
	d := Deciding(named(t, NameRoundRobin, nil))
	first, ok := d.Decide(Request{Model: "m"}, pool)
	second, _ := d.Decide(Request{Model: "m"}, pool)
	if !ok || first.Rank == second.Rank || first.Reason != ReasonPolicy || first.CreditTokens != 0 {
		t.Fatalf("round robin decided %+v, then %+v", first, second)
	}
	d.Sent(first)
	d.Observe(first, 100)
	if table := d.Explain(Request{Model: "m"}, pool); len(table.Candidates) != 2 || table.Policy != NameRoundRobin {
		t.Errorf("the table is %+v", table)
	}
	third, _ := d.Decide(Request{Model: "m"}, pool)
	if third.Rank != first.Rank {
		t.Error("to explain used up a turn")
	}
	if _, again := Deciding(newRig(t, 1).policy).(*cacheAware); !again {
		t.Error("a decider was wrapped")
	}
}

func TestManyGoroutinesMayDecide(t *testing.T) {
	r := newRig(t, 8)
	var keys [][]index.Key
	for i := range uint64(8) {
		k := chain(i, 100)
		keys = append(keys, k)
		r.hold(int(i), k, 60, index.Device)
	}
	view := r.board.View()
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range 200 {
				q := request(keys[(g+i)%8])
				d, ok := r.policy.Decide(q, r.ranks[i%2:])
				if !ok {
					t.Error("no choice")
					return
				}
				l, _ := d.Rank.AcquireCached(q.PromptTokens, d.CreditTokens)
				r.policy.Sent(d)
				r.policy.Observe(d, d.PromisedTokens())
				if i%50 == 0 {
					r.board.Store(NewView(view.holdings))
				}
				l.Done(workers.Success)
			}
		})
	}
	wg.Wait()
	if len(r.heard) > 0 {
		t.Errorf("honest engines became suspect: %v", r.heard)
	}
}

func TestADecisionAllocatesNothing(t *testing.T) {
	if testing.CoverMode() != "" || invariant.Enabled {
		t.Skip("instrumented builds allocate")
	}
	r := newRig(t, 64)
	keys := chain(1, 328)
	for i := range r.ranks {
		r.hold(i, keys, 1+i*5, index.Device)
	}
	q := request(keys)
	q.Keys = quiet(keys)
	r.policy.Sent(r.decide(q))
	allocs := testing.AllocsPerRun(200, func() { r.policy.Decide(q, r.ranks) })
	if allocs >= 1 {
		t.Errorf("a decision allocates %v times", allocs)
	}
}

// quiet is a key source that notes nothing.
type quiet []index.Key

func (q quiet) Keys(KeySpace) []index.Key { return q }

func TestModelsNobodyAsksForAgainDoNotStay(t *testing.T) {
	r := newRig(t, 2)
	for i := range 3 * maxRosters {
		r.policy.Decide(Request{Model: fmt.Sprint(i)}, r.ranks)
		if n := len(*r.policy.rosters.byModel.Load()); n > maxRosters {
			t.Fatalf("%d rosters are kept, more than %d", n, maxRosters)
		}
	}
}

func TestReasonsAndTrustHaveNames(t *testing.T) {
	seen := map[string]bool{}
	for reason := range reasonEnd {
		seen[reason.String()] = true
	}
	for trust := range trustEnd {
		seen["trust "+trust.String()] = true
	}
	if len(seen) != int(reasonEnd)+int(trustEnd) || seen[""] {
		t.Errorf("names are missing or double: %v", seen)
	}
	if got := Reason(200).String() + Trust(200).String(); !strings.Contains(got, "policy") || !strings.Contains(got, "unknown") {
		t.Errorf("values outside the lists are called %q", got)
	}
}

func TestARankWithoutAStandingIsNotTrusted(t *testing.T) {
	r := newRig(t, 2)
	keys := chain(1, 16)
	r.hold(1, keys, 16, index.Device)
	r.set(1, func(h *Holding) { h.Standing = nil })
	r.expect("no standing", request(keys), 1, CacheHit, 8*blockSize)
}
