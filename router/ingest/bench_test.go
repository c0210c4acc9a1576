package ingest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/routerfleet/routerfleet/router/index"
	"github.com/routerfleet/routerfleet/router/kvevents"
	"github.com/routerfleet/routerfleet/router/snapshot"
)

// traffic makes batches of one rank as an engine in steady state: it stores a chain of some blocks and removes as many of
// the oldest, in batches of so many blocks.
func traffic(resident, batch, batches int) (fill, steady []*kvevents.Batch) {
	rnd := rand.New(rand.NewPCG(1, 2))
	name := func(n int) kvevents.Hash { return kvevents.Hash(uint64(n+1) * 0x9e3779b97f4a7c15) }
	next, oldest := 0, 0
	chainOf := func(n int) *kvevents.Stored {
		s := &kvevents.Stored{BlockSize: 16, Group: kvevents.NoGroup, Form: kvevents.IntegerForm, Tokens: 16 * n}
		for range n {
			s.Hashes = append(s.Hashes, name(next))
			s.Chunks = append(s.Chunks, index.Chunk(rnd.Uint64()))
			next++
		}
		return s
	}
	for next < resident {
		fill = append(fill, &kvevents.Batch{Events: []kvevents.Event{chainOf(batch)}})
	}
	for range batches {
		r := &kvevents.Removed{Group: kvevents.NoGroup, Form: kvevents.IntegerForm, Medium: kvevents.MediumGPU}
		s := chainOf(batch / 2)
		for range batch - batch/2 {
			r.Hashes = append(r.Hashes, name(oldest))
			oldest++
		}
		steady = append(steady, &kvevents.Batch{Events: []kvevents.Event{s, r}})
	}
	return fill, steady
}

// BenchmarkApply is the pump's path from a decoded batch into the index, without the wire: blocks stored and removed.
func BenchmarkApply(b *testing.B) {
	const resident, batches = 200_000, 2000
	for _, scheme := range allSchemes {
		for _, size := range []int{8, 64, 512} {
			b.Run(fmt.Sprintf("scheme=%s/blocks=%d", scheme, size), func(b *testing.B) {
				fill, steady := traffic(resident, size, batches)
				b.ReportAllocs()
				blocks := 0
				for b.Loop() {
					b.StopTimer()
					l := newLedger(newTestSection(scheme, 16), index.Rank{Worker: "w"})
					now := time.Unix(1, 0)
					for _, x := range fill {
						l.apply(now, x)
					}
					b.StartTimer()
					for _, x := range steady {
						l.apply(now, x)
					}
					blocks += size * batches
				}
				b.ReportMetric(float64(blocks)/b.Elapsed().Seconds()/1e6, "Mblocks/s")
			})
		}
	}
}

// BenchmarkPump is the way of a batch from the lane's end: state, index, published status.
func BenchmarkPump(b *testing.B) {
	const resident, batches = 200_000, 2000
	for _, scheme := range []index.Scheme{index.SchemeSGLang, index.SchemeTokens} {
		for _, size := range []int{8, 64, 512} {
			b.Run(fmt.Sprintf("scheme=%s/blocks=%d", scheme, size), func(b *testing.B) {
				b.ReportAllocs()
				blocks := 0
				for b.Loop() {
					b.StopTimer()
					fill, steady := traffic(resident, size, batches)
					send := pumpAlone(b, scheme)
					for _, x := range fill {
						send(x)
					}
					b.StartTimer()
					for _, x := range steady {
						send(x)
					}
					blocks += size * batches
				}
				b.ReportMetric(float64(blocks)/b.Elapsed().Seconds()/1e6, "Mblocks/s")
			})
		}
	}
}

// pumpAlone gives a function that does with a batch what a running pump does.
func pumpAlone(b *testing.B, scheme index.Scheme) (send func(*kvevents.Batch)) {
	p, err := New(Options{})
	if err != nil {
		b.Fatal(err)
	}
	rank := index.Rank{Worker: "w"}
	if err := p.register(Registration{Rank: rank, Worker: "w", Link: &fakeLink{}, Section: SectionKey{"m", scheme, 16, false}}); err != nil {
		b.Fatal(err)
	}
	r := p.ranks[rank]
	r.state.step(time.Unix(1, 0), opened{1})
	seq := int64(0)
	return func(x *kvevents.Batch) {
		x.Seq, x.Time, x.Hash = seq, kvevents.Stamp(seq+1), uint64(seq+1)
		seq++
		p.arrival = arrived{1, x, false}
		p.step(r, &p.arrival)
		if seq%drainAtOnce == 0 {
			p.flush()
			p.work()
		}
	}
}

// BenchmarkGraft is a section on its way from chunks in memory into the index: blocks a second, and how long the steps take
// that hold up the pump. The longest is mostly somebody else's on a busy machine.
func BenchmarkGraft(b *testing.B) {
	const ranks, chains, length = 16, 4000, 64
	for _, scheme := range []index.Scheme{index.SchemeSGLang, index.SchemeTokens} {
		b.Run(fmt.Sprintf("scheme=%s/ranks=%d/blocks=%d", scheme, ranks, chains*length), func(b *testing.B) {
			v := bigSection(scheme, ranks, chains, length)
			var steps []time.Duration
			for b.Loop() {
				b.StopTimer()
				s := newStill(b, Options{Bootstrap: true})
				for n := range ranks {
					s.join(scheme, fmt.Sprint("w", n), "p1")
				}
				v.read = 0
				during := func(_ context.Context, do func(*Pump) bool) (bool, error) {
					began := time.Now()
					more := do(s.Pump)
					steps = append(steps, time.Since(began))
					return more, nil
				}
				owed := s.owing()
				v.key = s.SnapshotKey(s.View().Sections()[0])
				b.StartTimer()
				got, err := graftBy(b.Context(), during, v, owed)
				if err != nil || got[0].Verdict != Grafted {
					b.Fatalf("%+v, %v", got, err)
				}
			}
			b.ReportMetric(float64(b.N*chains*length)/b.Elapsed().Seconds(), "blocks/s")
			slices.Sort(steps)
			b.ReportMetric(float64(steps[len(steps)*99/100].Microseconds()), "p99-step-us")
			b.ReportMetric(float64(steps[len(steps)-1].Microseconds()), "longest-step-us")
		})
	}
}

// bigSection has chains that two ranks each hold.
func bigSection(scheme index.Scheme, ranks, chains, length int) *section {
	rnd := rand.New(rand.NewPCG(1, 2))
	v := &section{}
	for n := range ranks {
		c := Cursor{Incarnation: Incarnation{Start: Start{Known: true, ID: "p1"}}, Seq: 9, Time: sec(9), Hash: 9, Proof: Proven}
		v.ranks = append(v.ranks, snapshot.VettedRank{Rank: index.Rank{Worker: fmt.Sprint("w", n)}, Cursor: c, WalkedTo: 9})
	}
	for n := range chains {
		if n%64 == 0 {
			v.chunks = append(v.chunks, &piece{})
		}
		p := v.chunks[len(v.chunks)-1]
		keys := make([]index.Key, length)
		who := []index.Holding{{Rank: n % ranks, Tiers: index.Device}, {Rank: (n + 1 + n/ranks) % ranks, Tiers: index.Device}}
		if who[0].Rank == who[1].Rank {
			who = who[:1]
		}
		for i := range keys {
			keys[i] = index.Key(rnd.Uint64())
			for _, w := range who {
				if scheme == index.SchemeTokens {
					p.hashes = append(p.hashes, ofRank[snapshot.HashRow]{rank: w.Rank, row: snapshot.HashRow{Hash: rnd.Uint64(), Key: keys[i], Copies: 1}})
				}
			}
		}
		p.parents, p.keys, p.who = append(p.parents, index.Root), append(p.keys, keys), append(p.who, who)
	}
	return v
}
