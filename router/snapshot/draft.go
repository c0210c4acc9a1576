package snapshot

import (
	"context"
	"math/bits"
	"runtime"

	"github.com/routerfleet/routerfleet/router/index"
)

// draft keeps the runs of a section of scheme tokens until the engines' hashes are known. The hashes of a rank come in any
// order; where they belong is found by a table of one rank's keys at a time.
//
// It takes 8 bytes a block and 10 a carrier, and 12 to 24 a block of the largest rank; its blocks are freed one by one as
// they are encoded.
type draft struct {
	blocks []*draftBlock
	of     [][]runRef // by place: the runs it has part in
	table  keySlots
}

// draftBlock is a part of a draft.
type draftBlock struct {
	runs   []draftRun
	keys   []index.Key
	hashes []uint64 // run by run, key by key, carrier by carrier
	copies []Copies // of the same
}

type draftRun struct {
	parent   index.Parent
	from, to int
	names    int // where they begin
	set      uint32
	who      []index.Holding
}

type runRef struct{ block, run int32 }

const (
	// blockNames is how many names a block has before the next is begun. One more key may follow, with all ranks there
	// are, so that a name's place in its block has nameBits, and the number of the block the rest of 32.
	blockNames = 1 << 16
	nameBits   = 17
	maxBlocks  = 1 << (32 - nameBits - 1)
	// collectBlocks are collected at once: 36 MB. A collection costs little, as an index has no pointers.
	collectBlocks = 32
)

func newDraft(ranks int) *draft { return &draft{of: make([][]runRef, ranks)} }

// add takes a run. It is false when there is no room: 2 billion carriers are held.
func (d *draft) add(r index.Run) bool {
	for p := r.Parent; len(r.Keys) > 0; {
		if n := len(d.blocks); n == 0 || len(d.blocks[n-1].hashes) >= blockNames {
			if n == maxBlocks {
				return false
			}
			d.blocks = append(d.blocks, &draftBlock{
				keys: make([]index.Key, 0, blockNames/len(r.Who)+1), hashes: make([]uint64, 0, blockNames), copies: make([]Copies, 0, blockNames),
			})
		}
		b := d.blocks[len(d.blocks)-1]
		n := min(len(r.Keys), (blockNames-len(b.hashes))/len(r.Who)+1)
		for _, w := range r.Who {
			d.of[w.Rank] = append(d.of[w.Rank], runRef{int32(len(d.blocks) - 1), int32(len(b.runs))})
		}
		b.add(p, r.Keys[:n], r.Set, r.Who)
		p, r.Keys = index.After(r.Keys[n-1]), r.Keys[n:]
	}
	return true
}

func (b *draftBlock) add(p index.Parent, keys []index.Key, set uint32, who []index.Holding) {
	b.runs = append(b.runs, draftRun{p, len(b.keys), len(b.keys) + len(keys), len(b.hashes), set, who})
	b.keys = append(b.keys, keys...)
	n := len(keys) * len(who)
	b.hashes = append(b.hashes, make([]uint64, n)...)
	b.copies = append(b.copies, make([]Copies, n)...)
}

// name gives a hash its place, if that is free.
func (d *draft) name(at uint32, h HashRow) bool {
	b, i := d.blocks[at>>nameBits], at&(1<<nameBits-1)
	if b.copies[i] != 0 {
		return false
	}
	b.hashes[i], b.copies[i] = h.Hash, h.Copies
	return true
}

// slots gives a rank's table: where the name of each of its blocks goes. It is valid until the next.
func (d *draft) slots(place int, held uint64) *keySlots {
	t := &d.table
	t.reset(int(held))
	for _, ref := range d.of[place] {
		b := d.blocks[ref.block]
		r := &b.runs[ref.run]
		member := 0
		for r.who[member].Rank != place {
			member++
		}
		for i, k := range b.keys[r.from:r.to] {
			t.put(k, uint32(ref.block)<<nameBits|uint32(r.names+i*len(r.who)+member))
		}
	}
	return t
}

// encode packs the runs with their names, and has what it took collected as it goes: or the draft and what it becomes lie
// side by side, half the index each.
func (d *draft) encode(e *nodeEncoder) {
	d.table = keySlots{}
	var names []name
	for i, b := range d.blocks {
		if i%collectBlocks == collectBlocks-1 {
			runtime.GC()
		}
		for _, r := range b.runs {
			names = names[:0]
			for at := range len(r.who) * (r.to - r.from) {
				names = append(names, name{b.hashes[r.names+at], b.copies[r.names+at]})
			}
			e.run(r.parent, b.keys[r.from:r.to], r.set, r.who, names)
		}
		d.blocks[i] = nil
	}
}

// name fetches the hashes of every walked rank, and encodes the section.
func (p *sectionBuild) name(ctx context.Context) error {
	for place, rank := range p.ranks {
		slots, row := p.draft.slots(place, p.held[place]), p.rows[place]
		err := p.src.Hashes(ctx, p.from.Key, rank, func(hashes []HashRow, orphans []OrphanRow) error {
			for _, h := range hashes {
				if at, ok := slots.get(h.Key); !ok || !p.draft.name(at, h) {
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

// keySlots maps keys to numbers: open addressing, filled to 3/4 at most.
type keySlots struct {
	keys  []index.Key
	slots []uint32 // +1; 0 is empty
	n     int
}

func newKeySlots(n int) *keySlots {
	t := &keySlots{}
	t.reset(n)
	return t
}

// reset empties the table and gives it room for n keys.
func (t *keySlots) reset(n int) {
	size := n + n/3 + 1
	if size > cap(t.keys) {
		*t = keySlots{keys: make([]index.Key, size), slots: make([]uint32, size)}
		return
	}
	t.keys, t.slots, t.n = t.keys[:size], t.slots[:size], 0
	clear(t.slots)
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
