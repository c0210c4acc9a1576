package snapshot

import (
	"context"
	"math/bits"

	"github.com/routerfleet/routerfleet/router/index"
)

// draft keeps the runs of a section of scheme tokens until the engines' hashes are known. The hashes of a rank come in any
// order; where they belong is found by a table of one rank's keys at a time.
//
// It takes 8 bytes a block and 10 a carrier, and 12 to 24 a block of the largest rank.
type draft struct {
	runs   []draftRun
	keys   []index.Key
	hashes []uint64  // run by run, key by key, carrier by carrier
	copies []Copies  // of the same
	of     [][]int32 // by place: the runs it has part in
}

type draftRun struct {
	parent   index.Parent
	from, to int
	names    int // where they begin
	set      uint32
	who      []index.Holding
}

// newDraft has room for so many blocks and carriers of so many ranks; more may come.
func newDraft(ranks int, blocks int64) *draft {
	n := int(max(0, min(blocks, maxNodes1)))
	return &draft{of: make([][]int32, ranks), keys: make([]index.Key, 0, n), hashes: make([]uint64, 0, n), copies: make([]Copies, 0, n)}
}

func (d *draft) add(r index.Run) {
	run := draftRun{parent: r.Parent, from: len(d.keys), to: len(d.keys) + len(r.Keys), names: len(d.hashes), set: r.Set, who: r.Who}
	for _, w := range r.Who {
		d.of[w.Rank] = append(d.of[w.Rank], int32(len(d.runs)))
	}
	n := len(r.Keys) * len(r.Who)
	d.keys = append(d.keys, r.Keys...)
	d.hashes = append(d.hashes, make([]uint64, n)...)
	d.copies = append(d.copies, make([]Copies, n)...)
	d.runs = append(d.runs, run)
}

// slots gives a rank's table: where the name of each of its blocks goes.
func (d *draft) slots(place int, held uint64) *keySlots {
	t := newKeySlots(int(held))
	for _, at := range d.of[place] {
		r := &d.runs[at]
		member := 0
		for r.who[member].Rank != place {
			member++
		}
		for i, k := range d.keys[r.from:r.to] {
			t.put(k, uint32(r.names+i*len(r.who)+member))
		}
	}
	return t
}

// name fetches the hashes of every walked rank, and encodes the section.
func (p *sectionBuild) name(ctx context.Context) error {
	for place, rank := range p.ranks {
		slots, row := p.draft.slots(place, p.held[place]), p.rows[place]
		err := p.src.Hashes(ctx, p.from.Key, rank, func(hashes []HashRow, orphans []OrphanRow) error {
			for _, h := range hashes {
				if at, ok := slots.get(h.Key); ok && p.draft.copies[at] == 0 {
					p.draft.hashes[at], p.draft.copies[at] = h.Hash, h.Copies
				} else {
					p.more.hash(row, h) // evicted, or stored since, or a second name
				}
			}
			for _, o := range orphans {
				p.more.orphan(row, o)
			}
			return p.more.err
		})
		if err != nil {
			return err
		}
		p.more.flush()
		if p.more.err != nil {
			return p.more.err
		}
	}
	p.draft.encode(&p.nodes)
	p.draft = nil
	return nil
}

// encode packs the runs with their names.
func (d *draft) encode(e *nodeEncoder) {
	var names []name
	for _, r := range d.runs {
		names = names[:0]
		for at := range len(r.who) * (r.to - r.from) {
			names = append(names, name{d.hashes[r.names+at], d.copies[r.names+at]})
		}
		e.run(r.parent, d.keys[r.from:r.to], r.set, r.who, names)
	}
}

// keySlots maps keys to numbers: open addressing, filled to 3/4 at most.
type keySlots struct {
	keys  []index.Key
	slots []uint32 // +1; 0 is empty
	n     int
}

func newKeySlots(n int) *keySlots {
	size := n + n/3 + 1
	return &keySlots{keys: make([]index.Key, size), slots: make([]uint32, size)}
}

func (t *keySlots) home(k index.Key) int {
	at, _ := bits.Mul64(uint64(k)*0x9e3779b97f4a7c15, uint64(len(t.keys)))
	return int(at)
}

// put adds a key that may be there: the number it had first stays.
func (t *keySlots) put(k index.Key, number uint32) {
	if t.n*4 >= len(t.keys)*3 {
		old := *t
		*t = *newKeySlots(2 * old.n)
		for at, slot := range old.slots {
			if slot != 0 {
				t.put(old.keys[at], slot-1)
			}
		}
	}
	for at := t.home(k); ; {
		if t.slots[at] == 0 {
			t.keys[at], t.slots[at] = k, number+1
			t.n++
			return
		}
		if t.keys[at] == k {
			return
		}
		if at++; at == len(t.keys) {
			at = 0
		}
	}
}

func (t *keySlots) get(k index.Key) (uint32, bool) {
	for at := t.home(k); t.slots[at] != 0; {
		if t.keys[at] == k {
			return t.slots[at] - 1, true
		}
		if at++; at == len(t.keys) {
			at = 0
		}
	}
	return 0, false
}
