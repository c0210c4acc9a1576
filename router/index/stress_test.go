package index

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/routerfleet/routerfleet/internal/invariant"
)

// The stress's holdings can be told from a key alone: chain c of rank i exists only for i in owners(c), so a
// torn read shows itself without a lock.
const (
	stressRanks  = 48
	stressChains = 512
	stressDepth  = 24
)

func owner(c, i int) bool { return (c*7+i*13)%5 != 0 }

func stressKey(c, level int) Key {
	if level < 4 { // shared by eight chains
		return Key(uint64(c/8+1)*0x9e3779b97f4a7c15 + uint64(level))
	}
	return Key(uint64(c+1)*0xd6e8feb86659fd93 + uint64(level))
}

// stressWorld is the index and the keys in it.
type stressWorld struct {
	x  *Index
	of func(c, level int) Key
}

func (w *stressWorld) path(c int) []Key {
	out := make([]Key, stressDepth)
	for level := range out {
		out[level] = w.of(c, level)
	}
	return out
}

// crowd has all keys lie in the first few segments, so that these have many pages.
func (w *stressWorld) crowd(few uint64) {
	crowded, next := map[Key]Key{}, Key(0)
	for c := range stressChains {
		for level := range stressDepth {
			if plain := stressKey(c, level); crowded[plain] == 0 {
				for next++; w.x.hash.sum(next)>>(64-segmentBits) >= few; next++ {
				}
				crowded[plain] = next
			}
		}
	}
	w.of = func(c, level int) Key { return crowded[stressKey(c, level)] }
}

// mayHold tells whether rank i can ever hold the given level of chain c.
func mayHold(c, level, i int) bool {
	if level >= 4 {
		return owner(c, i)
	}
	for s := c / 8 * 8; s < c/8*8+8; s++ {
		if owner(s, i) {
			return true
		}
	}
	return false
}

// TestReadersNeverSeeWhatWasNotThere runs readers against a writer at full load: stores, removals, forgotten ranks whose
// ids come back for others, restores, evictions and rebuilt segments. Once in small segments, and once in few of many
// pages, which are used again for each other.
func TestReadersNeverSeeWhatWasNotThere(t *testing.T) {
	for _, few := range []uint64{segments, 6} {
		t.Run(fmt.Sprint("segments=", few), func(t *testing.T) { stress(t, few) })
	}
}

func stress(t *testing.T, few uint64) {
	steps := 30_000
	if invariant.Enabled {
		steps = 6_000
	}
	w := &stressWorld{New(Options{MaxBlocks: stressChains * stressDepth / 2}), stressKey}
	if few < segments {
		w.crowd(few)
	}
	var stop atomic.Bool
	var readers sync.WaitGroup
	for n := range 3 {
		readers.Go(func() { readStress(t, w, uint64(n), &stop) })
	}
	readers.Go(func() { exportStress(t, w, &stop) })
	writeStress(t, w, steps)
	if pages := len(w.x.segs[0].Load().pages); few < segments && pages < 3 {
		t.Errorf("the first segment has %d pages: the stress is not what it should be", pages)
	}
	stop.Store(true)
	readers.Wait()
	w.x.drain()
	w.x.checkAll(t)
}

func writeStress(t *testing.T, w *stressWorld, steps int) {
	x := w.x
	r := seeded(t, 11)
	held := map[int]*Holder{}
	for step := range steps {
		i, c := r.IntN(stressRanks), r.IntN(stressChains)
		h := held[i]
		if h == nil {
			h, _ = x.Rank(Rank{Worker: "w", DP: int32(i)})
			held[i] = h
		}
		switch n := r.IntN(100); {
		case n < 50 && owner(c, i):
			x.Store(h, Root, w.path(c)[:1+r.IntN(stressDepth)], Tier(1<<r.IntN(2)))
		case n < 95:
			x.Remove(h, w.path(c)[r.IntN(stressDepth):], AllTiers)
		case n < 97:
			x.Forget(h)
			delete(held, i)
		case n < 98:
			if err := x.Clear(h); err != nil {
				t.Error(err)
			}
		default:
			restoreStress(t, w, i, r)
		}
		if step%4 == 0 {
			x.Work(200)
		}
	}
}

func restoreStress(t *testing.T, w *stressWorld, i int, r *rand.Rand) {
	g, err := w.x.BeginRestore([]Rank{{Worker: "w", DP: int32(i)}})
	if err != nil {
		t.Error(err)
		return
	}
	for c := range 20 {
		if !owner(c, i) {
			continue
		}
		if c%2 == 0 {
			g.AddRun(Root, w.path(c), []Holding{{0, Device}})
			continue
		}
		p := Root
		for _, k := range w.path(c) {
			g.Add(k, p, []Holding{{0, Device}})
			p = After(k)
		}
	}
	if r.IntN(2) == 0 {
		g.Abort()
		return
	}
	g.Commit()
}

func readStress(t *testing.T, w *stressWorld, seed uint64, stop *atomic.Bool) {
	r := rand.New(rand.NewPCG(seed, 1))
	var res Result
	for !stop.Load() {
		c := r.IntN(stressChains)
		path := w.path(c)
		w.x.Match(path, Mode(r.IntN(2)), DefaultWeights, &res)
		for i := range stressRanks {
			depth, _ := res.Of(Rank{Worker: "w", DP: int32(i)})
			if depth > 0 && !mayHold(c, int(depth)-1, i) {
				t.Errorf("rank %d is said to hold level %d of chain %d, which it never did", i, depth, c)
				stop.Store(true)
				return
			}
		}
	}
}

func exportStress(t *testing.T, w *stressWorld, stop *atomic.Bool) {
	where := map[Key][2]int{}
	for c := range stressChains {
		for level := range stressDepth {
			where[w.of(c, level)] = [2]int{c, level}
		}
	}
	for !stop.Load() {
		e := w.x.Export()
		for more := true; more && !stop.Load(); {
			more = e.Next(func(n Node) {
				at := where[n.Key]
				if at[1] > 0 && n.Parent != After(w.of(at[0], at[1]-1)) || at[1] == 0 && n.Parent != Root {
					t.Errorf("level %d of chain %d is exported with parent %v", at[1], at[0], n.Parent)
				}
				for _, m := range n.Carriers {
					if !mayHold(at[0], at[1], int(m.Rank.DP)) {
						t.Errorf("rank %d is exported with level %d of chain %d", m.Rank.DP, at[1], at[0])
					}
				}
			})
		}
	}
}
