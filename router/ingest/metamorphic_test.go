package ingest

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/routerfleet/routerfleet/router/index"
	"github.com/routerfleet/routerfleet/router/kvevents"
)

// process is one life of an engine: what it says, in order.
type process struct {
	name    string
	batches []*kvevents.Batch
}

// history makes an engine's life from a seed: a cache of chains that grow, lose their ends, are copied to host memory and
// cleared now and then. Every removal is of a block without children, as engines' are.
func history(rnd *rand.Rand, name string, events int, began kvevents.Stamp) *process {
	type node struct{ id, parent, children, copies int }
	nodes := map[int]*node{}
	var ids []int
	next := rnd.IntN(1 << 40)
	var out []kvevents.Event
	for len(out) < events {
		switch x := rnd.IntN(100); {
		case x < 1:
			out = append(out, &kvevents.Cleared{})
			clear(nodes)
			ids = nil
		case x < 55 || len(ids) == 0:
			parent := root
			if len(ids) > 0 && rnd.IntN(4) > 0 {
				parent = ids[rnd.IntN(len(ids))]
			}
			var blocks []int
			up := parent
			for range 1 + rnd.IntN(6) {
				blocks = append(blocks, next)
				nodes[next] = &node{id: next, parent: up, copies: 1}
				if up != root {
					nodes[up].children++
				}
				ids = append(ids, next)
				up = next
				next++
			}
			out = append(out, chain(parent, blocks...))
		case x < 65: // another copy of a block
			n := nodes[ids[rnd.IntN(len(ids))]]
			n.copies++
			out = append(out, chain(n.parent, n.id))
		default:
			at := rnd.IntN(len(ids))
			n := nodes[ids[at]]
			if n.children > 0 {
				continue
			}
			out = append(out, gone(n.id))
			if n.copies--; n.copies > 0 {
				continue
			}
			if n.parent != root {
				nodes[n.parent].children--
			}
			delete(nodes, n.id)
			ids = slices.Delete(ids, at, at+1)
		}
	}
	return cut(name, out, began, func() int { return 1 + rnd.IntN(3) })
}

// cut makes batches of events, so many in each.
func cut(name string, events []kvevents.Event, began kvevents.Stamp, size func() int) *process {
	p := &process{name: name}
	for len(events) > 0 {
		n := min(size(), len(events))
		seq := int64(len(p.batches))
		h := fnv.New64a()
		fmt.Fprint(h, name, seq)
		p.batches = append(p.batches, &kvevents.Batch{
			Seq: seq, Time: began + kvevents.Stamp(seq)*kvevents.Stamp(time.Second), Hash: h.Sum64(), Events: events[:n]})
		events = events[n:]
	}
	return p
}

func (p *process) events() (out []kvevents.Event) {
	for _, b := range p.batches {
		out = append(out, b.Events...)
	}
	return out
}

// harness is one rank with its ledger beside an engine that answers at once, or not at all.
type harness struct {
	t      *testing.T
	s      *rankState
	l      *ledger
	now    time.Time
	engine *process
	said   int // batches the engine has published
	epoch  uint64
	mute   bool // the engine answers no question
	redial bool
}

func newHarness(t *testing.T, scheme index.Scheme, engine *process) *harness {
	h := &harness{t: t, s: newRankState("uid", nil), l: newLedger(newTestSection(scheme, 4), index.Rank{Worker: "w"}),
		now: time.Unix(1000, 0), engine: engine}
	h.tell(registered{start: Start{Known: true, ID: engine.name}, replays: true})
	return h
}

func (h *harness) tell(m message) {
	var answers []message
	for _, e := range h.s.step(h.now, m) {
		switch e := e.(type) {
		case apply:
			h.l.apply(h.now, e.batch)
		case clearAll:
			h.l.clear()
		case redial:
			h.redial = true
		case askReplay:
			if !h.mute {
				answers = append(answers, replayed{e.gen, h.repeat(e.from)})
			}
		case askStart:
			if !h.mute {
				answers = append(answers, identified{e.epoch, Start{Known: true, ID: h.engine.name}})
			}
		}
	}
	for _, a := range answers {
		h.tell(a)
	}
	if h.redial {
		h.redial = false
		h.connect()
	}
}

func (h *harness) repeat(from int64) *kvevents.ReplayResult {
	r := &kvevents.ReplayResult{Start: from, Ending: kvevents.Complete, Dense: true}
	for _, b := range h.engine.batches[:h.said] {
		if b.Seq >= from {
			r.Batches = append(r.Batches, kvevents.Replayed{Batch: b})
		}
	}
	return r
}

func (h *harness) connect() {
	h.epoch++
	h.tell(opened{h.epoch})
}

func (h *harness) hear(b *kvevents.Batch) { h.tell(&arrived{epoch: h.epoch, batch: b}) }

// publish has the engine say its next batch, which arrives so many times.
func (h *harness) publish(times int) {
	b := h.engine.batches[h.said]
	h.said++
	for range times {
		h.hear(b)
	}
}

func (h *harness) publishAll() {
	for h.said < len(h.engine.batches) {
		h.publish(1)
	}
}

// content is what the rank is said to hold.
func (h *harness) content() string {
	if h.l.holder == nil {
		return "nothing"
	}
	return fmt.Sprintf("digest %016x, blocks %v", h.l.holder.Digest, h.l.holder.Blocks)
}

// truth is what the engine's events, applied one after another without any protocol, leave.
func truth(t *testing.T, scheme index.Scheme, p *process) string {
	h := &harness{l: newLedger(newTestSection(scheme, 4), index.Rank{Worker: "w"})}
	for _, b := range p.batches {
		h.l.apply(time.Unix(1000, 0), b)
	}
	return h.content()
}

func seeds(t *testing.T, n int, f func(t *testing.T, rnd *rand.Rand)) {
	for seed := range uint64(n) {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) { f(t, rand.New(rand.NewPCG(seed, 1))) })
	}
}

func forSeedsAndSchemes(t *testing.T, n int, f func(t *testing.T, rnd *rand.Rand, scheme index.Scheme)) {
	for _, scheme := range allSchemes {
		t.Run(string(scheme), func(t *testing.T) {
			seeds(t, n, func(t *testing.T, rnd *rand.Rand) { f(t, rnd, scheme) })
		})
	}
}

func (h *harness) wantTruth(what string) {
	h.t.Helper()
	if got, want := h.content(), truth(h.t, h.l.section.Key.Scheme, h.engine); got != want {
		h.t.Errorf("%s: %s, want %s (%v, %v)", what, got, want, h.s.state, h.s.cursor)
	}
	if h.s.cursor.Proof != Origin || h.s.cursor.Partial {
		h.t.Errorf("%s: the cursor is %v, partial %v", what, h.s.cursor.Proof, h.s.cursor.Partial)
	}
}

func TestAStreamCutIntoOtherBatchesIsTheSame(t *testing.T) {
	forSeedsAndSchemes(t, 10, func(t *testing.T, rnd *rand.Rand, scheme index.Scheme) {
		p := history(rnd, "p1", 300, sec(0))
		want := truth(t, scheme, p)
		for _, size := range []int{1, 2, 7, 300} {
			other := cut("p1", p.events(), sec(0), func() int { return size })
			h := newHarness(t, scheme, other)
			h.connect()
			h.publishAll()
			if got := h.content(); got != want {
				t.Errorf("%d events a batch: %s, want %s", size, got, want)
			}
		}
	})
}

func TestBatchesThatComeTwiceChangeNothing(t *testing.T) {
	forSeedsAndSchemes(t, 10, func(t *testing.T, rnd *rand.Rand, scheme index.Scheme) {
		h := newHarness(t, scheme, history(rnd, "p1", 300, sec(0)))
		h.connect()
		for h.said < len(h.engine.batches) {
			h.publish(1 + rnd.IntN(3))
			if h.said > 3 { // an old one, though not the first within the clock's margin
				h.hear(h.engine.batches[3+rnd.IntN(h.said-3)])
			}
		}
		h.wantTruth("all batches came, some twice")
		if n := h.s.tally.Restarts; n != [restartHows]uint64{} {
			t.Errorf("restarts: %v", n)
		}
	})
}

// The connection is lost after each batch in turn, and some batches are said while it is down.
func TestAReconnectAtAnyPointChangesNothing(t *testing.T) {
	forSeedsAndSchemes(t, 3, func(t *testing.T, rnd *rand.Rand, scheme index.Scheme) {
		p := history(rnd, "p1", 60, sec(0))
		for at := range p.batches {
			for missed := range 3 {
				h := newHarness(t, scheme, p)
				h.connect()
				for h.said < at {
					h.publish(1)
				}
				h.tell(closed{h.epoch})
				for range min(missed, len(p.batches)-h.said) {
					h.publish(0)
				}
				h.connect()
				h.publishAll()
				h.wantTruth(fmt.Sprintf("lost at %d, %d missed", at, missed))
			}
		}
	})
}

// The process dies after each batch in turn; the next one is met at its first batch or later, by number below, at or above
// our cursor. Nothing of the first is left.
func TestARestartAtAnyPointLeavesNothingOfTheOldLife(t *testing.T) {
	forSeedsAndSchemes(t, 2, func(t *testing.T, rnd *rand.Rand, scheme index.Scheme) {
		old, young := history(rnd, "p1", 24, sec(0)), history(rnd, "p2", 36, sec(1000))
		for at := range old.batches {
			for met := range young.batches {
				for _, reconnect := range []bool{true, false} {
					h := newHarness(t, scheme, old)
					h.connect()
					for h.said < at {
						h.publish(1)
					}
					if reconnect {
						h.tell(closed{h.epoch})
					}
					if !reconnect && int64(met) > h.s.cursor.Seq && at > 0 {
						continue // a live connection that goes on with another process, past the cursor: no socket does that
					}
					h.engine, h.said = young, met
					if reconnect {
						h.connect()
					}
					h.publishAll()
					h.wantTruth(fmt.Sprintf("died at %d, met at %d, reconnect %v", at, met, reconnect))
				}
			}
		}
	})
}

// A restart, and an engine that answers nothing: what is left is true, or says that it is not trusted.
func TestWithoutAnswersAWrongRankSaysSo(t *testing.T) {
	forSeedsAndSchemes(t, 2, func(t *testing.T, rnd *rand.Rand, scheme index.Scheme) {
		old, young := history(rnd, "p1", 24, sec(0)), history(rnd, "p2", 36, sec(1000))
		for at := 1; at < len(old.batches); at++ {
			for met := range young.batches {
				h := newHarness(t, scheme, old)
				h.connect()
				for h.said < at {
					h.publish(1)
				}
				h.tell(closed{h.epoch})
				h.engine, h.said, h.mute = young, met, true
				h.connect()
				h.publishAll()
				h.now = h.now.Add(2 * time.Minute)
				h.tell(tick{})
				doubted := h.s.cursor.Proof == Untrusted || h.s.cursor.Partial
				if got, want := h.content(), truth(t, scheme, young); got != want && !doubted {
					t.Fatalf("died at %d, met at %d: %s, want %s, and the rank is %v", at, met, got, want, h.s.cursor)
				}
			}
		}
	})
}

// Blocks come back to none, whatever came between.
func TestAnEmptiedEngineLeavesNothing(t *testing.T) {
	forSeedsAndSchemes(t, 5, func(t *testing.T, rnd *rand.Rand, scheme index.Scheme) {
		b := newBook(t, scheme)
		p := history(rnd, "p1", 500, sec(0))
		copies := map[kvevents.Hash]int{}
		for _, e := range p.events() {
			b.events(e)
			switch e := e.(type) {
			case *kvevents.Stored:
				for _, h := range e.Hashes {
					copies[h]++
				}
			case *kvevents.Removed:
				for _, h := range e.Hashes {
					copies[h]--
				}
			case *kvevents.Cleared:
				clear(copies)
			}
		}
		for h, n := range copies {
			for range n {
				b.events(gone(int(h)))
			}
		}
		b.empty()
	})
}
