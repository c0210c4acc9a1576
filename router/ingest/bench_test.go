package ingest

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/routerfleet/routerfleet/router/index"
	"github.com/routerfleet/routerfleet/router/kvevents"
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
