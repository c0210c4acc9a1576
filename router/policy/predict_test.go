package policy

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/routerfleet/routerfleet/router/index"
)

var epoch = time.Unix(1_000_000, 0)

// predictedDepth asks as scoring does: from the depth of the index on.
func predictedDepth(p *predictions, keys []index.Key, from int, rank uint64, at time.Time) int {
	return predictedDepthOf(p, keys, from, tenant{rank: rank}, at)
}

func predictedDepthOf(p *predictions, keys []index.Key, from int, of tenant, at time.Time) int {
	depth, now := from, p.clock(at)
	if from >= len(keys) {
		return depth
	}
	p.at(keys, from, now, func(t tenant) {
		if t == of {
			depth = -1
		}
	})
	if depth == -1 {
		depth = p.depth(keys, from, now, of)
	}
	return depth
}

// The twin is a map from (key, rank in one life) to when it expires; a depth is a walk. Each rank's index holds the
// beginning of one prompt that the others share more or less of; now and then one begins anew and holds nothing.
func TestPredictionsAgreeWithAMap(t *testing.T) {
	type place struct {
		key index.Key
		of  tenant
	}
	for seed := range uint64(100) {
		r := rand.New(rand.NewPCG(seed, 5))
		p, now := newPredictions(5*time.Second, epoch), epoch
		twin := map[place]time.Time{}
		prompts, shared := [][]index.Key{chain(seed, 200)}, []int{200}
		for range 6 {
			from := r.IntN(len(prompts))
			n := r.IntN(len(prompts[from]))
			prompts = append(prompts, branch(prompts[from], n, r.Uint64(), n+r.IntN(100)+1))
			shared = append(shared, min(shared[from], n))
		}
		held, lives := [5]int{0, 1, 17, 100, 200}, [5]uint32{}
		for range 300 {
			now = now.Add(time.Duration(r.IntN(400)) * time.Millisecond)
			which, rank := r.IntN(len(prompts)), r.Uint64N(5)
			if r.IntN(50) == 0 {
				held[rank] = 0
				lives[rank]++
			}
			keys, depth, of := prompts[which], min(shared[which], held[rank]), tenant{rank, lives[rank]}
			if r.IntN(2) == 0 {
				p.sent(keys, depth, of, now)
				for _, k := range keys[depth:] {
					twin[place{k, of}] = now.Add(5 * time.Second)
				}
				continue
			}
			want := depth
			for want < len(keys) && twin[place{keys[want], of}].After(now) {
				want++
			}
			if got := predictedDepthOf(p, keys, depth, of, now); got != want {
				t.Fatalf("seed %d: rank %d from level %d: got depth %d, want %d", seed, rank, depth, got, want)
			}
		}
		p.check(t)
	}
}

// What is taken back may be shared with prompts that were not: a depth then lies between what is left for sure and what it
// would be had nothing been taken back, and of the prompt itself nothing is left.
func TestPredictionsThatAreTakenBackAreNoMoreThanBefore(t *testing.T) {
	for seed := range uint64(50) {
		r := rand.New(rand.NewPCG(seed, 9))
		p, whole := newPredictions(time.Minute, epoch), newPredictions(time.Minute, epoch)
		prompts, now := [][]index.Key{chain(seed, 100)}, epoch
		for range 5 {
			from := prompts[r.IntN(len(prompts))]
			prompts = append(prompts, branch(from, r.IntN(len(from)), r.Uint64(), len(from)+r.IntN(60)))
		}
		for range 200 {
			now = now.Add(time.Millisecond)
			keys, rank := prompts[r.IntN(len(prompts))], tenant{rank: r.Uint64N(3)}
			switch r.IntN(4) {
			case 0:
				p.unsent(keys, 0, rank)
				if got := predictedDepthOf(p, keys, 0, rank, now); got != 0 {
					t.Fatalf("seed %d: %d blocks of a prompt that was taken back are predicted", seed, got)
				}
			case 1, 2:
				p.sent(keys, 0, rank, now)
				whole.sent(keys, 0, rank, now)
			default:
				if got, most := predictedDepthOf(p, keys, 0, rank, now), predictedDepthOf(whole, keys, 0, rank, now); got > most {
					t.Fatalf("seed %d: depth %d, more than the %d of what was sent", seed, got, most)
				}
			}
		}
		p.check(t)
	}
}

func TestPredictionsAreBounded(t *testing.T) {
	p, now := newPredictions(time.Minute, epoch), epoch
	for i := range uint64(6_000) {
		p.sent(chain(i, 256), 0, tenant{rank: i % 64}, now)
		now = now.Add(time.Millisecond)
	}
	if n := p.records(); n > maxPredictions {
		t.Fatalf("%d records of at most %d", n, maxPredictions)
	}
	p.check(t)
	if got := predictedDepth(p, chain(5_999, 256), 0, 5_999%64, now); got != 256 {
		t.Errorf("the newest prompt has depth %d, want 256", got)
	}
	if got := predictedDepth(p, chain(0, 256), 0, 0, now); got == 256 {
		t.Error("the oldest prompt is whole, though there were half as many again as fit")
	}
}

func TestExpiredPredictionsMakeRoom(t *testing.T) {
	p, now := newPredictions(5*time.Second, epoch), epoch
	hot := chain(99_999, 64) // made again all the time
	for i := range uint64(2_000) {
		p.sent(hot, 0, tenant{rank: 1}, now)
		p.sent(chain(i, 256), 0, tenant{rank: i % 8}, now)
		now = now.Add(100 * time.Millisecond)
	}
	// 50 prompts live at a time. Records that live on may hold the hand up a little.
	if n := p.records(); n > 4*50*256 {
		t.Errorf("%d records are kept of some %d that live", n, 50*256)
	}
	if got := predictedDepth(p, hot, 0, 1, now); got != 64 {
		t.Errorf("the prompt that is sent all the time has depth %d, want 64", got)
	}
	p.check(t)
}

func TestNoTTLPredictsNothing(t *testing.T) {
	p := newPredictions(0, epoch)
	p.sent(chain(1, 10), 0, tenant{rank: 1}, epoch)
	if n := p.records(); n != 0 {
		t.Errorf("%d records", n)
	}
}

func TestPredictionsMayBeMadeAndReadAtOnce(t *testing.T) {
	p := newPredictions(time.Second, epoch)
	var wg sync.WaitGroup
	for g := range uint64(8) {
		wg.Go(func() {
			for i := range 200 {
				now := epoch.Add(time.Duration(i) * 10 * time.Millisecond)
				keys := branch(chain(1, 100), 50, g%3, 100)
				p.sent(keys, 0, tenant{rank: g}, now)
				if got := predictedDepth(p, keys, 0, g, now); got != 100 {
					t.Errorf("goroutine %d reads depth %d of what it just made, want 100", g, got)
					return
				}
			}
		})
	}
	wg.Wait()
	p.check(t)
}

// check walks every shard: each record is in its key's list once, and nothing else is.
func (p *predictions) check(t *testing.T) {
	t.Helper()
	for i := range p.shards {
		s := &p.shards[i]
		seen := map[int32]bool{}
		for k, at := range s.heads {
			for ; at != none; at = s.ring[at].next {
				if s.ring[at].key != k || seen[at] {
					t.Fatalf("shard %d: record %d is in the list of %x (key %x), seen before: %v", i, at, k, s.ring[at].key, seen[at])
				}
				seen[at] = true
			}
		}
		if len(seen) != len(s.ring) || len(s.ring) > perShard {
			t.Fatalf("shard %d: %d of %d records are in lists", i, len(seen), len(s.ring))
		}
	}
}

func BenchmarkPredictions(b *testing.B) {
	for _, blocks := range []int{16, 328} {
		b.Run(fmt.Sprintf("op=sent/blocks=%d", blocks), func(b *testing.B) {
			p, now := newPredictions(5*time.Second, epoch), epoch
			prompts := make([][]index.Key, 1_000)
			for i := range prompts {
				prompts[i] = chain(uint64(i), blocks)
			}
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				p.sent(prompts[i%len(prompts)], 0, tenant{rank: uint64(i % 64)}, now)
				now = now.Add(10 * time.Millisecond)
			}
		})
		b.Run(fmt.Sprintf("op=depth/blocks=%d", blocks), func(b *testing.B) {
			p, keys := newPredictions(5*time.Second, epoch), chain(1, blocks)
			p.sent(keys, 0, tenant{rank: 1}, epoch)
			b.ReportAllocs()
			for b.Loop() {
				predictedDepth(p, keys, 0, 1, epoch)
			}
		})
	}
}
