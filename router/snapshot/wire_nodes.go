package snapshot

import (
	"encoding/binary"
	"slices"

	"github.com/routerfleet/routerfleet/router/index"
)

// A chunk of nodes is the section's number, the number of its nodes, and operations. The low two bits of an operation say
// which, the rest is its number:
//
//	define  n members follow: of each the distance to the row before it, less one, and four bits of tiers; the set gets
//	        the chunk's next number
//	next    n keys follow behind a set's number; the first follows the last key of the run before
//	root    the same, and the first follows nothing
//	after   the same, and the first follows a key that stands before them
//
// In a section with engine hashes the keys of a run are followed by hash and copies of every member, key by key.
const (
	opDefine = iota
	opNext
	opRoot
	opAfter
	opBits = 2

	// runBytes is the most a run needs beside keys and hashes, and nameBytes a hash with its copies.
	runBytes  = 8 + 2*binary.MaxVarintLen32
	nameBytes = 8 + binary.MaxVarintLen16
)

// name is an engine's hash of a block and the copies of it.
type name struct {
	hash   uint64
	copies Copies
}

// nodeEncoder packs runs into chunks.
type nodeEncoder struct {
	section int
	rows    []int // the table's row of each place
	names   bool
	emit    func(frame []byte) error // owns nothing: the frame is valid during the call

	buf    []byte
	nodes  int
	defs   map[uint32]int
	last   index.Key
	begun  bool // last is set
	err    error
	totals totals
}

// run adds a chain. set numbers who; names has one entry a key and member where the section has hashes.
func (e *nodeEncoder) run(p index.Parent, keys []index.Key, set uint32, who []index.Holding, names []name) {
	a := 8
	if e.names {
		a += len(who) * nameBytes
	}
	for len(keys) > 0 && e.err == nil {
		room := frameBytes - frameTail - len(e.buf) - runBytes
		if _, ok := e.defs[set]; !ok {
			room -= (len(who) + 1) * binary.MaxVarintLen32
		}
		n := min(room/a, MaxChunkNodes-e.nodes)
		if n <= 0 || e.nodes == 0 {
			if e.nodes > 0 {
				e.flush()
				continue
			}
			e.begin()
			n = max(1, min((frameBytes-frameTail-len(e.buf)-runBytes-(len(who)+1)*binary.MaxVarintLen32)/a, MaxChunkNodes))
		}
		n = min(n, len(keys))
		e.put(p, keys[:n], set, who, names[:min(len(names), n*len(who))])
		keys, names, p = keys[n:], names[min(len(names), n*len(who)):], index.After(keys[n-1])
	}
}

// begin starts a chunk.
func (e *nodeEncoder) begin() {
	e.buf = beginFrame(e.buf[:0], frameNodes)
	e.buf = binary.AppendUvarint(e.buf, uint64(e.section))
	e.buf = append(e.buf, 0, 0)
	if e.defs == nil {
		e.defs = map[uint32]int{}
	}
	clear(e.defs)
	e.begun = false
}

func (e *nodeEncoder) put(p index.Parent, keys []index.Key, set uint32, who []index.Holding, names []name) {
	number, ok := e.defs[set]
	if !ok {
		number = e.define(set, who)
	}
	op := opAfter
	switch {
	case !p.Known:
		op = opRoot
	case e.begun && p.Key == e.last:
		op = opNext
	}
	b := binary.AppendUvarint(e.buf, uint64(len(keys)<<opBits|op))
	b = binary.AppendUvarint(b, uint64(number))
	if op == opAfter {
		b = appendU64(b, uint64(p.Key))
	}
	for _, k := range keys {
		b = appendU64(b, uint64(k))
		e.totals.sum += uint64(k)
	}
	for _, n := range names {
		b = binary.AppendUvarint(appendU64(b, n.hash), uint64(n.copies))
		e.totals.sum += n.hash
	}
	e.buf = b
	e.last, e.begun = keys[len(keys)-1], true
	e.nodes += len(keys)
	e.totals.nodes += uint64(len(keys))
	e.totals.holdings += uint64(len(keys) * len(who))
}

func (e *nodeEncoder) define(set uint32, who []index.Holding) int {
	e.buf = binary.AppendUvarint(e.buf, uint64(len(who)<<opBits)) // opDefine is 0
	before := -1
	for _, w := range who {
		row := e.rows[w.Rank]
		e.buf = binary.AppendUvarint(e.buf, uint64(row-before-1)<<4|uint64(w.Tiers))
		before = row
	}
	n := len(e.defs)
	e.defs[set] = n
	return n
}

// flush ends the chunk, if there is one.
func (e *nodeEncoder) flush() {
	if e.nodes == 0 || e.err != nil {
		return
	}
	start := frameHead + len(binary.AppendUvarint(nil, uint64(e.section)))
	binary.LittleEndian.PutUint16(e.buf[start:], uint16(e.nodes))
	e.buf = endFrame(e.buf, 0)
	e.err = e.emit(e.buf)
	e.buf, e.nodes = e.buf[:0], 0
}

// chunkDecoder reads the chunks of one section in the terms of whoever reads.
type chunkDecoder struct {
	places []int // by row of the table, -1 where the row is not wanted
	names  bool
	totals totals // of what was read

	sets []wireSet // of the chunk under way
	who  []index.Holding
}

// wireSet is a set as it was defined.
type wireSet struct {
	size    int          // members
	members []wireMember // where they bring hashes
	at      int          // its place in Chunk.sets, without unwanted members
}

type wireMember struct{ place int }

// nodes reads a chunk. It is false for what is no chunk of nodes of a section with so many rows.
func (d *chunkDecoder) nodes(r *reader) (*Chunk, bool) {
	left := int(r.byte())
	left |= int(r.byte()) << 8
	if left > MaxChunkNodes || left*8 > len(r.b) {
		return nil, false
	}
	c := &Chunk{keys: make([]index.Key, 0, left)}
	d.sets = d.sets[:0]
	var last index.Key
	for begun := false; left > 0; {
		op := r.uvarint()
		count := op >> opBits
		if op&(1<<opBits-1) == opDefine {
			if !d.define(c, r, count) {
				return nil, false
			}
			continue
		}
		p, set, ok := runHead(r, op, last, begun)
		if !ok || count == 0 || count > uint64(left) || set >= len(d.sets) || int(count)*8 > len(r.b) {
			return nil, false
		}
		keys := r.b[:count*8]
		r.b = r.b[count*8:]
		d.run(c, r, p, keys, set)
		last, begun = index.Key(binary.LittleEndian.Uint64(keys[len(keys)-8:])), true
		left -= int(count)
	}
	return c, !r.bad && len(r.b) == 0
}

// runHead reads what stands before the keys of a run.
func runHead(r *reader, op uint64, last index.Key, begun bool) (p index.Parent, set int, ok bool) {
	set = r.count(maxSets)
	switch op & (1<<opBits - 1) {
	case opNext:
		return index.After(last), set, begun && !r.bad
	case opAfter:
		return index.After(index.Key(r.u64())), set, !r.bad
	default:
		return index.Root, set, !r.bad
	}
}

func (d *chunkDecoder) define(c *Chunk, r *reader, members uint64) bool {
	if members == 0 || members > uint64(len(d.places)) || members > uint64(len(r.b)) || len(d.sets) == maxSets {
		return false
	}
	set := wireSet{size: int(members), at: len(c.sets)}
	who := make([]index.Holding, 0, members)
	row := -1
	for range members {
		v := r.uvarint()
		if v>>4 >= uint64(len(d.places)) || row+1+int(v>>4) >= len(d.places) {
			return false
		}
		row += 1 + int(v>>4)
		place, t := d.places[row], index.Tier(v)&index.AllTiers
		if d.names {
			set.members = append(set.members, wireMember{place})
		}
		if place >= 0 && t != 0 {
			who = append(who, index.Holding{Rank: place, Tiers: t})
		}
	}
	d.sets, c.sets = append(d.sets, set), append(c.sets, who)
	return !r.bad
}

func (d *chunkDecoder) run(c *Chunk, r *reader, p index.Parent, keys []byte, set int) {
	n := uint64(len(keys) / 8)
	d.totals.nodes += n
	d.totals.holdings += n * uint64(d.sets[set].size)
	if d.names {
		d.named(c, r, p, keys, &d.sets[set])
	} else {
		d.plain(c, p, keys, d.sets[set].at)
	}
}

// plain takes a run of a section without hashes.
func (d *chunkDecoder) plain(c *Chunk, p index.Parent, keys []byte, set int) {
	from := len(c.keys)
	wanted := len(c.sets[set]) > 0
	for ; len(keys) > 0; keys = keys[8:] {
		k := binary.LittleEndian.Uint64(keys)
		d.totals.sum += k
		if wanted {
			c.keys = append(c.keys, index.Key(k))
		}
	}
	if wanted {
		c.runs = append(c.runs, chunkRun{parent: p, from: from, to: len(c.keys), set: set})
	}
}

// named takes a run of a section with hashes. Who holds a block, and where, the copies say: they are as of a later moment
// than the members, and events until then count in both. A block whose copies are gone is held no more.
func (d *chunkDecoder) named(c *Chunk, r *reader, p index.Parent, keys []byte, set *wireSet) {
	joined := false // the run under way goes on
	for ; len(keys) > 0 && !r.bad; keys = keys[8:] {
		k := index.Key(binary.LittleEndian.Uint64(keys))
		d.totals.sum += uint64(k)
		d.who = d.who[:0]
		for _, m := range set.members {
			hash, copies := r.u64(), Copies(r.count(1<<16-1))
			d.totals.sum += hash
			if m.place >= 0 && copies != 0 {
				d.who = append(d.who, index.Holding{Rank: m.place, Tiers: copies.Tiers()})
				c.hashes = append(c.hashes, rankHash{m.place, HashRow{hash, k, copies}})
			}
		}
		switch n := len(c.runs); {
		case len(d.who) == 0:
			joined = false
		case joined && slices.Equal(d.who, c.sets[c.runs[n-1].set]):
			c.keys = append(c.keys, k)
			c.runs[n-1].to++
		default:
			c.keys = append(c.keys, k)
			c.runs = append(c.runs, chunkRun{parent: p, from: len(c.keys) - 1, to: len(c.keys), set: d.setOf(c, set)})
			joined = true
		}
		p = index.After(k)
	}
}

// setOf gives the number of a set with the members in d.who, the run's own set if that is it.
func (d *chunkDecoder) setOf(c *Chunk, set *wireSet) int {
	for _, at := range []int{set.at, len(c.sets) - 1} {
		if slices.Equal(d.who, c.sets[at]) {
			return at
		}
	}
	c.sets = append(c.sets, slices.Clone(d.who))
	return len(c.sets) - 1
}
