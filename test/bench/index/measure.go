package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/routerfleet/routerfleet/router/index"
)

// gcPercent is what the router sets for its own heap; garbage of growing arrays counts in the resident set.
const gcPercent = 25

// rate is lookups a second with their 99th percentile.
type rate struct {
	PerSecond float64
	P50, P99  time.Duration
}

func (r rate) String() string {
	if r.PerSecond == 0 {
		return "-"
	}
	return fmt.Sprintf("%.0f (%.1f us)", r.PerSecond/1e3, float64(r.P99)/float64(time.Microsecond))
}

// figures are what one row measured.
type figures struct {
	Shape  shape
	Blocks int

	Jump, JumpBeside, Walk, WalkBeside, Healing rate

	BuildRate, WriterRate, RestoreRate float64 // a second
	LongestWork                        time.Duration
	WorstBytes, EndBytes               float64 // resident, a block
}

// store is what is measured: the index or one of the others.
type store interface {
	add(rank int, parent index.Parent, keys []index.Key)
	remove(rank int, keys []index.Key)
	// match is called by one goroutine at a time for each reader.
	match(keys []index.Key, reader int)
}

// data are the chains of a shape.
type data struct {
	system   [][]index.Key
	sessions [][]index.Key
	owners   []int
}

const (
	systemPrompts, systemBlocks, sessionBlocks = 8, 128, 200
	readers                                    = 2
)

func randomChain(r *rand.Rand, n int) []index.Key {
	out := make([]index.Key, n)
	for i := range out {
		out[i] = index.Key(r.Uint64())
	}
	return out
}

func (s shape) data() data {
	r := rand.New(rand.NewPCG(1, 1))
	var d data
	for range systemPrompts {
		d.system = append(d.system, randomChain(r, systemBlocks))
	}
	for range s.Sessions {
		d.sessions = append(d.sessions, randomChain(r, sessionBlocks))
		d.owners = append(d.owners, r.IntN(s.Ranks))
	}
	return d
}

// query is a session's prompt: its system prompt and its own blocks.
func (d data) query(i int, dst []index.Key) []index.Key {
	return append(append(dst[:0], d.system[i%systemPrompts]...), d.sessions[i]...)
}

func (s shape) blocks() int { return systemPrompts*systemBlocks + s.Sessions*sessionBlocks }

func measure(s shape, roundTime time.Duration) figures {
	debug.SetGCPercent(gcPercent)
	f := figures{Shape: s, Blocks: s.blocks()}
	d := s.data()
	debug.FreeOSMemory()
	base := resident()
	st := s.open()
	build(s, st, d, base, &f)
	if x, ok := st.(*indexed); ok {
		f.RestoreRate = x.restore(s)
	}
	f.Jump = d.lookups(st, 0, roundTime)
	f.JumpBeside, f.WriterRate = beside(s, st, d, roundTime)
	if x, ok := st.(*indexed); ok {
		f.LongestWork = x.longestWork(s)
		f.Healing = d.lookups(cold{x}, 0, roundTime)
		x.unroot(s)
		f.Walk = d.lookups(st, 0, roundTime)
		f.WalkBeside, _ = beside(s, st, d, roundTime)
	}
	return f
}

func (s shape) open() store {
	switch s.Kind {
	case "map":
		return newMapped()
	case "tree":
		return newTree()
	default:
		return newIndexed(s.Ranks)
	}
}

// build fills the store and samples the resident set on the way.
func build(s shape, st store, d data, base int64, f *figures) {
	began, placements := time.Now(), 0
	for _, c := range d.system {
		for rank := range s.Ranks {
			st.add(rank, index.Root, c)
			placements += len(c)
		}
	}
	every := max(1, s.Sessions/200)
	var sampling time.Duration
	for i, c := range d.sessions {
		p := index.After(d.system[i%systemPrompts][systemBlocks-1])
		st.add(d.owners[i], p, c)
		placements += len(c)
		if i%10 == 0 { // one session in ten is held twice
			st.add((d.owners[i]+1)%s.Ranks, p, c)
			placements += len(c)
		}
		// Below a tenth of the blocks the program itself weighs more than they do.
		if i%every == 0 && i > s.Sessions/10 {
			at := time.Now()
			f.WorstBytes = max(f.WorstBytes, float64(resident()-base)/float64(systemPrompts*systemBlocks+i*sessionBlocks))
			sampling += time.Since(at)
		}
	}
	f.BuildRate = float64(placements) / (time.Since(began) - sampling).Seconds()
	debug.FreeOSMemory()
	f.EndBytes = float64(resident()-base) / float64(f.Blocks)
}

// resident gives the process's resident set in bytes.
func resident() int64 {
	data, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0
	}
	pages, _ := strconv.ParseInt(strings.Fields(string(data))[1], 10, 64)
	return pages * int64(os.Getpagesize())
}

// lookups asks random sessions' prompts for a while.
func (d data) lookups(st store, reader int, roundTime time.Duration) rate {
	r := rand.New(rand.NewPCG(2, uint64(reader)))
	took := make([]time.Duration, 0, 1<<20)
	var keys []index.Key
	began := time.Now()
	for time.Since(began) < roundTime {
		keys = d.query(r.IntN(len(d.sessions)), keys)
		at := time.Now()
		st.match(keys, reader)
		took = append(took, time.Since(at))
	}
	var busy time.Duration
	for _, t := range took {
		busy += t
	}
	slices.Sort(took)
	at := func(q float64) time.Duration { return took[int(float64(len(took)-1)*q)] }
	return rate{PerSecond: float64(len(took)) / busy.Seconds(), P50: at(.5), P99: at(.99)}
}

// beside measures lookups while a writer stores and removes chains of 16 blocks as fast as it can.
func beside(s shape, st store, d data, roundTime time.Duration) (rate, float64) {
	var stop atomic.Bool
	var writer sync.WaitGroup
	blocks := 0
	began := time.Now()
	var took time.Duration
	writer.Go(func() {
		r := rand.New(rand.NewPCG(3, 3))
		var ring [512][]index.Key
		var owner [512]int
		for n := 0; !stop.Load(); n++ {
			i := n % len(ring)
			if ring[i] != nil {
				st.remove(owner[i], ring[i])
				blocks += len(ring[i])
			}
			ring[i], owner[i] = randomChain(r, 16), r.IntN(s.Ranks)
			st.add(owner[i], index.Root, ring[i])
			blocks += len(ring[i])
		}
		took = time.Since(began)
		for i, c := range ring {
			st.remove(owner[i], c)
		}
	})
	got := d.lookups(st, 1, roundTime)
	stop.Store(true)
	writer.Wait()
	return got, float64(blocks) / took.Seconds()
}
