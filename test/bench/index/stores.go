package main

import (
	"math/rand/v2"
	"sync"
	"time"

	"github.com/routerfleet/routerfleet/router/index"
)

// indexed is the index under measurement.
type indexed struct {
	x       *index.Index
	holders []*index.Holder
	results [readers]index.Result
}

func rankNo(i int) index.Rank { return index.Rank{Worker: "pod", DP: int32(i)} }

func newIndexed(ranks int) *indexed {
	s := &indexed{x: index.New(index.Options{})}
	for i := range ranks {
		h, err := s.x.Rank(rankNo(i))
		if err != nil {
			panic(err) // far below the limit
		}
		s.holders = append(s.holders, h)
	}
	return s
}

func (s *indexed) add(rank int, p index.Parent, keys []index.Key) {
	s.x.Store(s.holders[rank], p, keys, index.Device)
}
func (s *indexed) remove(rank int, keys []index.Key) {
	s.x.Remove(s.holders[rank], keys, index.AllTiers)
}
func (s *indexed) match(keys []index.Key, reader int) {
	s.x.Match(keys, index.Deepest, index.DefaultWeights, &s.results[reader])
}

// cold asks as a replica that started late: the first block of each prompt was never announced to it.
type cold struct{ *indexed }

func (s cold) match(keys []index.Key, reader int) {
	keys[0]++
	s.indexed.match(keys, reader)
}

// unroot stores blocks whose parents are unknown, 1 % of the nodes, so that every query must walk.
func (s *indexed) unroot(sh shape) {
	r := rand.New(rand.NewPCG(4, 4))
	for range sh.blocks() / 100 {
		s.x.Store(s.holders[r.IntN(len(s.holders))], index.After(index.Key(r.Uint64())), randomChain(r, 1), index.Device)
	}
}

// run is a piece of a chain as it is copied.
type run struct {
	parent index.Parent
	keys   []index.Key
	who    []index.Holding
}

// restore copies the whole index into another, as a booting replica does once the bytes are vetted: by pieces of chains
// that have the same carriers.
func (s *indexed) restore(sh shape) (perSecond float64) {
	ranks := make([]index.Rank, sh.Ranks)
	for i := range ranks {
		ranks[i] = rankNo(i)
	}
	var runs []run
	sets, nodes := map[uint32][]index.Holding{}, 0
	e := s.x.Runs(ranks, index.RunOptions{})
	for more := true; more; {
		more = e.Next(sh.blocks(), func(r index.Run) {
			if sets[r.Set] == nil {
				sets[r.Set] = append([]index.Holding(nil), r.Who...)
			}
			runs = append(runs, run{r.Parent, append([]index.Key(nil), r.Keys...), sets[r.Set]})
			nodes += len(r.Keys)
		})
	}
	y := index.New(index.Options{})
	began := time.Now()
	r, err := y.BeginRestore(ranks)
	if err != nil {
		panic(err)
	}
	for _, piece := range runs {
		r.AddRun(piece.parent, piece.keys, piece.who)
	}
	r.Commit()
	return float64(nodes) / time.Since(began).Seconds()
}

// longestWork forgets a rank and gives the longest of the calls that sweep it.
func (s *indexed) longestWork(sh shape) (longest time.Duration) {
	h, err := s.x.Rank(rankNo(sh.Ranks))
	if err != nil {
		panic(err)
	}
	s.x.Store(h, index.Root, randomChain(rand.New(rand.NewPCG(5, 5)), 1000), index.Device)
	s.x.Forget(h)
	for more := true; more; {
		at := time.Now()
		more = s.x.Work(10_000)
		longest = max(longest, time.Since(at))
	}
	return longest
}

// mapped is what one writes first: a map of sets behind a read-write lock.
type mapped struct {
	mu   sync.RWMutex
	held map[index.Key]map[int32]index.Tier
}

func newMapped() *mapped { return &mapped{held: map[index.Key]map[int32]index.Tier{}} }

func (m *mapped) add(rank int, _ index.Parent, keys []index.Key) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, k := range keys {
		set := m.held[k]
		if set == nil {
			set = map[int32]index.Tier{}
			m.held[k] = set
		}
		set[int32(rank)] |= index.Device
	}
}

func (m *mapped) remove(rank int, keys []index.Key) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, k := range keys {
		if delete(m.held[k], int32(rank)); len(m.held[k]) == 0 {
			delete(m.held, k)
		}
	}
}

func (m *mapped) match(keys []index.Key, _ int) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	depth := map[int32]int{}
	for level, k := range keys {
		set := m.held[k]
		for rank := range set {
			if depth[rank] == level {
				depth[rank] = level + 1
			}
		}
		if len(set) == 0 {
			return
		}
	}
}

// tree is a radix tree by block, as public routers have: children and carriers in maps, one read-write lock.
type tree struct {
	mu   sync.RWMutex
	root *treeNode
	at   map[index.Key]*treeNode
}

type treeNode struct {
	key      index.Key
	parent   *treeNode
	children map[index.Key]*treeNode
	carriers map[int32]index.Tier
}

func newTree() *tree {
	return &tree{root: &treeNode{children: map[index.Key]*treeNode{}}, at: map[index.Key]*treeNode{}}
}

func (t *tree) add(rank int, p index.Parent, keys []index.Key) {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := t.root
	if p.Known && t.at[p.Key] != nil {
		n = t.at[p.Key]
	}
	for _, k := range keys {
		child := n.children[k]
		if child == nil {
			child = &treeNode{key: k, parent: n, carriers: map[int32]index.Tier{}}
			if n.children == nil {
				n.children = map[index.Key]*treeNode{}
			}
			n.children[k], t.at[k] = child, child
		}
		child.carriers[int32(rank)] |= index.Device
		n = child
	}
}

func (t *tree) remove(rank int, keys []index.Key) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := len(keys) - 1; i >= 0; i-- {
		n := t.at[keys[i]]
		if n == nil {
			continue
		}
		delete(n.carriers, int32(rank))
		if len(n.carriers) == 0 && len(n.children) == 0 {
			delete(n.parent.children, n.key)
			delete(t.at, n.key)
		}
	}
}

func (t *tree) match(keys []index.Key, _ int) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	depth := map[int32]int{}
	n := t.root
	for level, k := range keys {
		if n = n.children[k]; n == nil {
			return
		}
		for rank := range n.carriers {
			if depth[rank] == level {
				depth[rank] = level + 1
			}
		}
	}
}
