package policy

import (
	"fmt"
	"testing"

	"github.com/routerfleet/routerfleet/router/index"
)

// A prompt of 328 blocks of which every rank holds the first, some a part, one nearly all: a long conversation behind a
// system prompt that everybody shares.
func benchRig(b *testing.B, n int) (*rig, []index.Key) {
	r := newRig(b, 1)
	r.ranks, r.holders, r.holdings = manyRanks(b, n), nil, map[index.Rank]Holding{}
	keys := chain(1, 328)
	for i, rank := range r.ranks {
		h, err := r.index.Rank(IndexRank(rank))
		if err != nil {
			b.Fatal(err)
		}
		r.holders = append(r.holders, h)
		r.holdings[h.Rank()] = Holding{Catalog: r.catalog, Standing: Steady{Trusted, 1}}
		depth := 1
		if i%16 == 3 {
			depth = 1 + i%300
		}
		r.hold(i, keys, depth, index.Device)
		for range i % 5 {
			lease(200)(rank)
		}
	}
	r.publish()
	return r, keys
}

func BenchmarkCacheAware(b *testing.B) {
	for _, n := range []int{8, 64, 1_000} {
		r, keys := benchRig(b, n)
		q := request(keys)
		q.Keys = quiet(keys)
		b.Run(fmt.Sprintf("op=decide/ranks=%d/blocks=328", n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				r.policy.Decide(q, r.ranks)
			}
		})
		b.Run(fmt.Sprintf("op=pick/ranks=%d/blocks=328", n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				r.policy.Pick(q, r.ranks)
			}
		})
		b.Run(fmt.Sprintf("op=match/ranks=%d/blocks=328", n), func(b *testing.B) { // the index's part of it
			var result index.Result
			b.ReportAllocs()
			for b.Loop() {
				r.index.Match(keys, index.Deepest, index.DefaultWeights, &result)
			}
		})
		b.Run(fmt.Sprintf("op=roster/ranks=%d", n), func(b *testing.B) { // once a change of workers or trust
			b.ReportAllocs()
			for b.Loop() {
				newRoster(r.board.View(), r.ranks, &r.policy.truths)
			}
		})
	}
}

func BenchmarkAllTied(b *testing.B) {
	r := newRig(b, 1)
	pool := manyRanks(b, 1_000)
	b.ReportAllocs()
	for b.Loop() {
		r.policy.Decide(Request{Model: "m", Key: 5, PromptTokens: 100}, pool)
	}
}
