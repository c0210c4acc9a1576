package snapshot

import (
	"io"
	"math"
	"slices"

	"github.com/routerfleet/routerfleet/router/cursor"
	"github.com/routerfleet/routerfleet/router/index"
)

// body1 reads a body of format 1: one section, its head before its nodes. Records name their parents by number, so the
// keys of all records are kept, 8 bytes each.
type body1 struct {
	j      *jsonReader
	table  *Table
	places []int // by worker of the table, -1 where nothing is wanted
	vetted *Vetted

	keys    []index.Key
	first   bool // no record was read yet
	given   bool // the section was given
	ended   bool
	carried int // carriers delivered

	workers []int // scratch of a record
	tiers   []int
	who     []index.Holding
}

// openBody1 reads and vets what stands before the nodes.
func openBody1(r io.Reader, w Want, peer string) (*Body, error) {
	j := newJSONReader(r)
	h := j.readHead()
	if j.err != nil {
		return nil, j.err
	}
	key := SectionKey{Scheme: index.SchemeSGLang, BlockSize: int(h.blockSize), Bigram: h.bigram}
	b := &body1{j: j, table: h.fill(key), first: true}
	body := &Body{table: b.table, format: b, left: map[index.Rank]Reason{}}
	v := &vetting{ready: h.ready, peer: peer, locals: newLocals(w), left: body.left}
	err := b.vet(&h, v)
	if b.j.peek() == ']' && j.err == nil { // nothing is held: the rest is short, and has the empty ranks
		b.drain()
		if err == nil || ReasonOf(err).Retriable() {
			err = reject(ProducerCold, "the peer holds nothing")
		}
	}
	if j.err != nil {
		return nil, j.err
	}
	return body, err
}

// vet finds the reader's ranks among the workers.
func (b *body1) vet(h *table1, v *vetting) error {
	b.places = make([]int, len(h.workers))
	out := &Vetted{}
	for i, w := range h.workers {
		b.places[i] = -1
		l, ok := v.locals.find(Worker{URL: w.URL}, w.DP)
		if !ok || l.key.Scheme != index.SchemeSGLang {
			continue
		}
		if h.blockSize != 0 && l.key.BlockSize != 0 && int64(l.key.BlockSize) != h.blockSize {
			v.left[l.rank.Rank] = BlockSizeMismatch
			continue
		}
		for _, r := range out.ranks {
			if r.Rank == l.rank.Rank {
				return reject(DuplicateWorker, "the body names %s/%d twice", w.URL, w.DP)
			}
		}
		if len(out.ranks) > 0 && l.key.Model != out.key.Model {
			v.left[l.rank.Rank] = SchemeMismatch // a body is of one model
			continue
		}
		out.key = l.key
		b.places[i] = len(out.ranks)
		out.ranks = append(out.ranks, v.rank(&wireRow{Row: Row{Worker: Worker{URL: w.URL}, DP: w.DP}}, l))
	}
	if err := b.cursors(h, out); err != nil {
		return err
	}
	if !h.ready {
		return reject(ProducerCold, "the peer calls itself no source")
	}
	if len(out.ranks) == 0 {
		return v.verdict()
	}
	b.vetted = out
	return nil
}

// cursors gives the ranks their cursors. A rank without one is not covered.
func (b *body1) cursors(h *table1, out *Vetted) error {
	seqs := make([]*int64, len(out.ranks))
	for _, c := range h.cursors {
		if c[0] < 0 || c[0] >= int64(len(h.workers)) || b.places[c[0]] < 0 {
			continue
		}
		place := b.places[c[0]]
		if seqs[place] != nil {
			return reject(DuplicateCursor, "the body has two cursors of %s/%d", h.workers[c[0]].URL, h.workers[c[0]].DP)
		}
		seqs[place] = &c[1]
	}
	to, kept := make([]int, len(out.ranks)), out.ranks[:0]
	for i, r := range out.ranks {
		to[i] = -1
		if seqs[i] == nil {
			continue
		}
		to[i] = len(kept)
		r.Cursor.Seq, r.Cursor.Proof, r.WalkedTo = *seqs[i], cursor.Unwitnessed, *seqs[i]
		kept = append(kept, r)
	}
	for i, place := range b.places {
		if place >= 0 {
			b.places[i] = to[place]
		}
	}
	out.ranks, out.places = kept, b.places
	return nil
}

func (b *body1) section() (*Vetted, error) {
	if b.given || b.vetted == nil {
		return nil, io.EOF
	}
	b.given = true
	return b.vetted, nil
}

// chunk reads up to MaxChunkNodes records.
func (b *body1) chunk() (*Chunk, error) {
	if b.ended {
		return nil, io.EOF
	}
	c := &Chunk{}
	for n, before := 0, b.carried; n < MaxChunkNodes && b.carried-before < maxChunkHoldings; n++ {
		if !b.j.more(']', &b.first) {
			b.tail()
			break
		}
		b.record(c)
		if b.j.err != nil {
			break
		}
	}
	if b.j.err != nil {
		return nil, b.j.err
	}
	if b.ended && b.carried == 0 {
		return nil, reject(NothingUsable, "no record is carried by a rank of ours")
	}
	return c, nil
}

// record reads one record and adds it to the chunk if a wanted rank carries it.
func (b *body1) record(c *Chunk) {
	j := b.j
	p, key, hasKey := index.Root, index.Key(0), false
	b.workers, b.tiers = b.workers[:0], b.tiers[:0]
	j.object(func(name string) {
		switch name {
		case "parent":
			p = b.parent()
		case "block_hash":
			key, hasKey = index.Key(j.integer()), true
		case "workers":
			b.workers = b.numbers(b.workers[:0], math.MaxUint32)
		case "tiers":
			b.tiers = b.numbers(b.tiers[:0], math.MaxUint8)
		default:
			j.skip(0)
		}
	})
	switch {
	case j.err != nil:
		return
	case !hasKey:
		j.malformed("a record without a block_hash")
		return
	case len(b.tiers) > 0 && len(b.tiers) != len(b.workers):
		j.fail(reject(TierMismatch, "record %d has %d tiers for %d workers", len(b.keys), len(b.tiers), len(b.workers)))
		return
	case len(b.keys) >= maxNodes1:
		j.malformed("too many records")
		return
	}
	b.keys = append(b.keys, key)
	b.add(c, key, p)
}

// parent reads the number of an earlier record.
func (b *body1) parent() index.Parent {
	if b.j.null() {
		return index.Root
	}
	at := b.j.upTo(math.MaxUint32)
	if at >= int64(len(b.keys)) {
		if b.j.err == nil {
			b.j.fail(reject(ForwardParent, "record %d follows record %d", len(b.keys), at))
		}
		return index.Root
	}
	return index.After(b.keys[at])
}

func (b *body1) numbers(dst []int, limit int64) []int {
	b.j.array(func() {
		v := b.j.upTo(limit)
		if len(dst) >= maxRecordCarriers {
			b.j.malformed("a record of too many workers")
			return
		}
		dst = append(dst, int(v))
	})
	return dst
}

// add takes a record's wanted carriers. A tier this release does not know is none; a carrier without any is left out.
func (b *body1) add(c *Chunk, key index.Key, p index.Parent) {
	b.who = b.who[:0]
	for i, w := range b.workers {
		t := index.Device
		if len(b.tiers) > 0 {
			t = index.Tier(b.tiers[i]) & index.AllTiers
		}
		if w < len(b.places) && b.places[w] >= 0 && t != 0 {
			b.who = append(b.who, index.Holding{Rank: b.places[w], Tiers: t})
		}
	}
	if len(b.who) == 0 {
		return
	}
	b.merge()
	b.carried += len(b.who)
	c.append(key, p, b.who)
}

// merge brings the carriers into order, one entry each.
func (b *body1) merge() {
	byRank := func(x, y index.Holding) int { return x.Rank - y.Rank }
	if !slices.IsSortedFunc(b.who, byRank) {
		slices.SortFunc(b.who, byRank)
	}
	kept := b.who[:1]
	for _, w := range b.who[1:] {
		if last := &kept[len(kept)-1]; last.Rank == w.Rank {
			last.Tiers |= w.Tiers
		} else {
			kept = append(kept, w)
		}
	}
	b.who = kept
}

// tail reads what follows the nodes.
func (b *body1) tail() {
	j := b.j
	for first := false; j.more('}', &first); {
		key := j.text()
		j.expect(':')
		if key != "empty_ranks" {
			j.skip(0)
			continue
		}
		j.array(func() {
			w := j.worker(len(b.table.Empty))
			b.table.Empty = append(b.table.Empty, TableRank{SectionKey{Scheme: index.SchemeSGLang}, Worker{URL: w.URL}, w.DP})
		})
		b.table.Complete = true
	}
	j.end()
	b.ended = true
}

// drain reads an empty list of nodes and what follows it.
func (b *body1) drain() {
	if !b.j.more(']', &b.first) {
		b.tail()
	}
}
