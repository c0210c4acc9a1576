package snapshot

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/routerfleet/routerfleet/router/index"
)

// event is what an engine says: it stores or removes blocks by its own names.
type event struct {
	seq    int64
	store  bool
	parent index.Parent
	keys   []index.Key
	tier   index.Tier
}

// stream makes the events of one engine: chains, second copies of blocks, copies in other tiers, removals leaf first.
type stream struct {
	rng    *rand.Rand
	seq    int64
	chains [][]index.Key
}

func (s *stream) next() event {
	s.seq++
	e := event{seq: s.seq, tier: index.Device}
	if s.rng.IntN(4) == 0 {
		e.tier = index.Host
	}
	n := len(s.chains)
	switch {
	case n < 3 || s.rng.IntN(3) > 0 && n < 60:
		var chain []index.Key
		if n > 0 && s.rng.IntN(2) == 0 {
			from := s.chains[s.rng.IntN(n)]
			chain = append(chain, from[:s.rng.IntN(len(from))]...)
		}
		at := len(chain)
		for range 1 + s.rng.IntN(12) {
			chain = append(chain, index.Key(s.rng.Uint64()))
		}
		s.chains = append(s.chains, chain)
		if e.keys = chain[at:]; at > 0 {
			e.parent = index.After(chain[at-1])
		}
		e.store = true
	case s.rng.IntN(3) == 0: // again: another copy
		e.keys, e.store = s.chains[s.rng.IntN(n)], true
	default:
		i := s.rng.IntN(n)
		chain := s.chains[i]
		at := s.rng.IntN(len(chain))
		for k := len(chain) - 1; k >= at; k-- {
			e.keys = append(e.keys, chain[k])
		}
		if s.chains[i] = chain[:at]; at == 0 {
			s.chains[i] = s.chains[n-1]
			s.chains = s.chains[:n-1]
		}
	}
	return e
}

// engine is what is true: copies of every block. An engine that does not count announces the one it has.
type engine struct {
	has    map[index.Key]Copies
	counts bool
}

func (e engine) apply(ev event) {
	for _, k := range ev.keys {
		c := e.has[k]
		switch {
		case ev.store && (e.counts || c.Tiers()&ev.tier == 0):
			c = oneMore(c, ev.tier)
		case !ev.store:
			c = oneLess(c, ev.tier)
		}
		if e.has[k] = c; c == 0 {
			delete(e.has, k)
		}
	}
}

func oneLess(c Copies, t index.Tier) Copies {
	for i, mask := range copyBits {
		if t>>i&1 != 0 && c&mask != 0 {
			c -= mask & -mask
		}
	}
	return c
}

// ledger applies events by names, as the pump does: upTo is WalkedTo of the graft it began with.
type ledger struct {
	index  *index.Index
	holder *index.Holder
	names  map[uint64]HashRow // nil where keys are the engine's own
	upTo   int64
	nameOf func(index.Key) uint64
}

func (l *ledger) apply(e event) {
	if l.names == nil {
		if e.store {
			l.index.Store(l.holder, e.parent, e.keys, e.tier)
		} else {
			l.index.Remove(l.holder, e.keys, e.tier)
		}
		return
	}
	for _, k := range e.keys {
		name := l.nameOf(k)
		row, known := l.names[name]
		switch {
		case e.store && known && e.seq <= l.upTo && row.Copies.Tiers()&e.tier != 0: // it may be counted already
		case e.store:
			l.names[name] = HashRow{name, k, oneMore(row.Copies, e.tier)}
		case known:
			if row.Copies = oneLess(row.Copies, e.tier); row.Copies == 0 {
				delete(l.names, name)
			} else {
				l.names[name] = row
			}
			if row.Copies.Tiers()&e.tier == 0 {
				l.index.Remove(l.holder, []index.Key{k}, e.tier)
			}
		}
	}
	if e.store {
		l.index.Store(l.holder, e.parent, e.keys, e.tier)
	}
}

func (l *ledger) held() map[index.Key]index.Tier {
	out := map[index.Key]index.Tier{}
	for e := l.index.Export(); e.Next(func(n index.Node) {
		for _, c := range n.Carriers {
			if c.Rank == l.holder.Rank() {
				out[n.Key] = c.Tiers
			}
		}
	}); {
	}
	return out
}

// played is a rank of a source whose engine goes on speaking while a snapshot is built.
type played struct {
	rank   *memoryRank
	stream *stream
	said   []event
	truth  engine
	ledger *ledger
}

// say has the engine publish a batch, which the source applies: index first, then the cursor, under the source's lock.
func (p *played) say(m *memory) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := p.stream.next()
	p.said = append(p.said, e)
	p.truth.apply(e)
	p.ledger.apply(e)
	p.rank.Cursor.Seq = e.seq
	p.rank.Cursor.Hash = uint64(e.seq)
	p.rank.Cursor.Time++
}

func play(t *testing.T, key SectionKey, seed uint64, ranks int) (*memory, []*played) {
	m := &memory{ready: true}
	s := m.add(key)
	var out []*played
	for i := range ranks {
		r := s.rank(t, fmt.Sprint(i), 0, 0)
		r.Cursor.Seq = 0
		p := &played{rank: r, stream: &stream{rng: rand.New(rand.NewPCG(seed, uint64(i)))}, truth: engine{map[index.Key]Copies{}, key.Scheme == index.SchemeTokens}}
		p.ledger = &ledger{index: s.index, holder: r.holder, nameOf: func(k index.Key) uint64 { return nameFor(r, k) }}
		if key.Scheme == index.SchemeTokens {
			p.ledger.names = r.names
		}
		out = append(out, p)
	}
	return m, out
}

// TestAGraftAndTheRestOfTheStreamAreTheWholeStream is what a snapshot is for: built at any moment, beside an engine that
// goes on, with what follows its cursor applied to it, it says what is true. With counted copies it may know less, never
// more.
func TestAGraftAndTheRestOfTheStreamAreTheWholeStream(t *testing.T) {
	for _, key := range []SectionKey{sglangKey(), tokensKey()} {
		for seed := range uint64(6) {
			t.Run(fmt.Sprint(key.Scheme, seed), func(t *testing.T) {
				m, all := play(t, key, seed, 3)
				rng := rand.New(rand.NewPCG(seed, 77))
				for range 50 + rng.IntN(400) {
					all[rng.IntN(len(all))].say(m)
				}
				m.onRow = func() { all[rng.IntN(len(all))].say(m) }
				m.onHashes = func() {
					for range rng.IntN(20) {
						all[rng.IntN(len(all))].say(m)
					}
				}
				raw := encodeBeside(t, m, all, seed)
				m.onRow, m.onHashes = nil, nil
				for range rng.IntN(100) {
					all[rng.IntN(len(all))].say(m)
				}
				body, err := open2(raw, m.wantAll())
				if err != nil {
					t.Fatal(err)
				}
				g := restoreAll(t, body)[0]
				for i, v := range g.ranks {
					p := all[find(all, v.Rank)]
					l := &ledger{index: g.index, holder: g.holders[i], upTo: v.WalkedTo, nameOf: p.ledger.nameOf}
					if key.Scheme == index.SchemeTokens {
						l.names = g.names[v.Rank]
					}
					for _, e := range p.said {
						if e.seq > v.Cursor.Seq {
							l.apply(e)
						}
					}
					compareTruth(t, l, p, key.Scheme == index.SchemeSGLang)
				}
			})
		}
	}
}

func find(all []*played, rank index.Rank) int {
	for i, p := range all {
		if p.rank.Rank == rank {
			return i
		}
	}
	return -1
}

// encodeBeside builds a body while another goroutine has the engines speak.
func encodeBeside(t *testing.T, m *memory, all []*played, seed uint64) []byte {
	stop, began := make(chan struct{}), make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		rng := rand.New(rand.NewPCG(seed, 78))
		for n := 0; ; n++ {
			select {
			case <-stop:
				return
			default:
				if all[rng.IntN(len(all))].say(m); n == 0 {
					close(began)
				}
			}
		}
	})
	<-began
	raw := encode(t, m)
	close(stop)
	wg.Wait()
	return raw
}

// compareTruth checks a ledger against what its engine holds.
func compareTruth(t *testing.T, l *ledger, p *played, exactly bool) {
	t.Helper()
	held := l.held()
	for k, tiers := range held {
		if p.truth.has[k].Tiers()&tiers != tiers {
			t.Fatalf("%v: block %x is said to be held in %v, and is in %v", p.rank.Rank, uint64(k), tiers, p.truth.has[k].Tiers())
		}
	}
	missing := 0
	for k, c := range p.truth.has {
		if held[k] != c.Tiers() {
			missing++
		}
	}
	if exactly && missing > 0 {
		t.Fatalf("%v: %d of %d blocks are missing", p.rank.Rank, missing, len(p.truth.has))
	}
	if len(p.truth.has) > 50 && missing*2 > len(p.truth.has) {
		t.Fatalf("%v: %d of %d blocks are missing: this is no graft", p.rank.Rank, missing, len(p.truth.has))
	}
}

// TestCountingTwiceWouldKeepABlockForEver is why WalkedTo binds copies: a graft whose reader ignores it claims a block
// that the engine has let go.
func TestCountingTwiceWouldKeepABlockForEver(t *testing.T) {
	m, all := play(t, tokensKey(), 1, 1)
	p := all[0]
	say := func(e event) {
		e.seq = p.stream.seq + 1
		p.stream.seq = e.seq
		p.said = append(p.said, e)
		p.truth.apply(e)
		p.ledger.apply(e)
		p.rank.Cursor.Seq = e.seq
	}
	say(event{store: true, keys: []index.Key{1, 2}, tier: index.Device})
	m.onHashes = func() { say(event{store: true, keys: []index.Key{1, 2}, tier: index.Device}) } // a second copy, counted in the names
	raw := encode(t, m)
	m.onHashes = nil
	for range 2 {
		say(event{keys: []index.Key{2, 1}, tier: index.Device})
	}
	for _, heeds := range []bool{true, false} {
		body, err := open2(raw, m.wantAll())
		if err != nil {
			t.Fatal(err)
		}
		g := restoreAll(t, body)[0]
		l := &ledger{index: g.index, holder: g.holders[0], names: g.names[p.rank.Rank], nameOf: p.ledger.nameOf}
		if heeds {
			l.upTo = g.ranks[0].WalkedTo
		}
		for _, e := range p.said {
			if e.seq > g.ranks[0].Cursor.Seq {
				l.apply(e)
			}
		}
		if left := len(l.held()); (left == 0) != heeds {
			t.Errorf("walked-to heeded %v: %d blocks are held, the engine has none", heeds, left)
		}
	}
}
