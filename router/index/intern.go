package index

import (
	"math/bits"
	"sync/atomic"
)

// setID names a carrier set. 0 is the empty set: no slot with a block has it.
type setID uint32

const (
	chunkBits = 10
	chunkSets = 1 << chunkBits
	// cacheBits size the transition cache: 65,536 entries of 32 bytes.
	cacheBits = 16
)

type setChunk [chunkSets]atomic.Pointer[carrierSet]

// setTable interns carrier sets. Readers use only at.
type setTable struct {
	chunks atomic.Pointer[[]*setChunk]
	epochs *epochs

	// Everything below belongs to the writer.
	books  []book           // by id
	byHash map[uint64]setID // head of the chain of sets with that hash
	cache  []transition
	unused []setID   // ids that may be given out
	idle   []setID   // sets whose count fell to 0 and that may come back; oldest first
	limbo  []retired // ids that readers may still hold; oldest first
	live   int       // sets with a count above 0, private ones included
	nodes  *int      // live nodes, for the budget
}

// book is what the writer knows of a set.
type book struct {
	hash    uint64
	refs    uint32
	gen     uint32 // goes up when the id is freed: transitions to an older one are void
	next    setID  // chain of equal hashes
	private bool   // belongs to one node and is replaced in place
	idle    bool   // in the idle list
}

// transition caches set + (rank, tiers, add or remove) -> set.
type transition struct {
	op             uint64
	from, to       setID
	fromGen, toGen uint32
	before, after  Tier
}

type retired struct {
	id  setID
	tag uint64
}

func newSetTable(e *epochs, nodes *int) *setTable {
	t := &setTable{epochs: e, nodes: nodes, byHash: map[uint64]setID{}, cache: make([]transition, 1<<cacheBits)}
	t.chunks.Store(&[]*setChunk{})
	t.unused = append(t.unused, t.grow())
	t.put(t.unused[0], noCarriers)
	t.unused = t.unused[:0]
	return t
}

// at gives the set of an id read from a slot. Safe for pinned readers.
func (t *setTable) at(id setID) *carrierSet {
	return (*t.chunks.Load())[id>>chunkBits][id%chunkSets].Load()
}

func (t *setTable) put(id setID, s *carrierSet) {
	(*t.chunks.Load())[id>>chunkBits][id%chunkSets].Store(s)
}

// grow gives a new id.
func (t *setTable) grow() setID {
	id := setID(len(t.books))
	t.books = append(t.books, book{})
	if chunks := *t.chunks.Load(); int(id>>chunkBits) == len(chunks) {
		grown := append(chunks[:len(chunks):len(chunks)], new(setChunk))
		t.chunks.Store(&grown)
	}
	return id
}

// change gives the set that rank r's tiers make of set id, and the rank's tiers before and after. The caller moves its
// reference from id to the result with move. owner tells that the caller is the only holder of a private id.
func (t *setTable) change(id setID, r rankID, tiers Tier, add bool) (to setID, before, after Tier) {
	op := uint64(r)<<8 | uint64(tiers)<<1
	if add {
		op |= 1
	}
	hi, lo := bits.Mul64(op^uint64(id)<<32, 0x9e3779b97f4a7c15)
	c := &t.cache[(hi^lo)>>(64-cacheBits)]
	if c.op == op && c.from == id && c.fromGen == t.books[id].gen && c.toGen == t.books[c.to].gen {
		return c.to, c.before, c.after
	}
	set := t.at(id)
	before = set.tiers(r)
	after = before &^ tiers
	if add {
		after = before | tiers
	}
	if after == before {
		return id, before, after
	}
	if to = t.replace(id, set.derive(r, after)); t.books[id].private || t.books[to].private {
		return to, before, after // a private set changes in place: nothing to remember
	}
	*c = transition{op, id, to, t.books[id].gen, t.books[to].gen, before, after}
	return to, before, after
}

// replace gives the id of a set for a node that has set id now.
func (t *setTable) replace(id setID, s *carrierSet) setID {
	if t.books[id].private || t.mayStayPrivate(s.n) {
		return t.changePrivate(id, s)
	}
	return t.intern(s)
}

// mayStayPrivate tells whether a combination of n carriers is too large to intern while sets are over budget.
func (t *setTable) mayStayPrivate(n int) bool {
	return n > privateMembers && t.live > max(minBudgetSets, *t.nodes/nodesPerSet)
}

// changePrivate replaces a node's own set in place, or gives the node a set of its own. One that has become small is
// interned again.
func (t *setTable) changePrivate(id setID, s *carrierSet) setID {
	if !t.books[id].private {
		own := t.fresh()
		t.books[own].private = true
		t.put(own, s)
		return own
	}
	if s.n <= privateMembers {
		return t.intern(s)
	}
	t.put(id, s)
	return id
}

// intern gives the id of the set that equals s, which it may keep. The empty set is 0.
func (t *setTable) intern(s *carrierSet) setID {
	if s.n == 0 {
		return 0
	}
	for id := t.byHash[s.hash]; id != 0; id = t.books[id].next {
		if t.at(id).equals(s) {
			return id
		}
	}
	id := t.fresh()
	b := &t.books[id]
	b.hash, b.next = s.hash, t.byHash[s.hash]
	t.byHash[s.hash] = id
	t.put(id, s)
	return id
}

// fresh gives an id that no slot and no reader holds. Its set is idle until a node takes it.
func (t *setTable) fresh() setID {
	t.settle(4)
	var id setID
	if n := len(t.unused); n > 0 {
		id, t.unused = t.unused[n-1], t.unused[:n-1]
	} else {
		id = t.grow()
	}
	t.books[id] = book{gen: t.books[id].gen, idle: true}
	t.idle = append(t.idle, id)
	return id
}

// move takes a node's reference from one set to another.
func (t *setTable) move(from, to setID) {
	if from == to {
		return
	}
	if to != 0 {
		b := &t.books[to]
		if b.refs == 0 {
			t.live++
		}
		b.refs++
	}
	if from == 0 {
		return
	}
	b := &t.books[from]
	b.refs--
	if b.refs > 0 {
		return
	}
	t.live--
	if !b.idle {
		b.idle = true
		t.idle = append(t.idle, from)
	}
	// Keep a stock of idle sets, for a rank that stores and removes the same combination again and again, but no
	// more of them than there are live ones.
	if len(t.idle) > minBudgetSets/4+t.live {
		t.reclaim(2)
	}
}

// reclaim frees up to n of the sets that have been idle for longest. It gives how many it looked at, and whether any are
// left.
func (t *setTable) reclaim(n int) (looked int, more bool) {
	for ; looked < n && len(t.idle) > 0; looked++ {
		id := t.idle[0]
		t.idle = t.idle[1:]
		b := &t.books[id]
		b.idle = false
		if b.refs == 0 {
			t.free(id)
		}
	}
	t.settle(2*n + 4)
	return looked, len(t.idle) > 0 || len(t.limbo) > 0
}

// free takes a set out of the table. Its id waits in limbo for the readers.
func (t *setTable) free(id setID) {
	b := &t.books[id]
	if !b.private {
		t.unchain(id)
	}
	b.gen++
	t.limbo = append(t.limbo, retired{id, t.epochs.retire()})
}

func (t *setTable) unchain(id setID) {
	b := &t.books[id]
	head := t.byHash[b.hash]
	if head == id {
		if b.next == 0 {
			delete(t.byHash, b.hash)
		} else {
			t.byHash[b.hash] = b.next
		}
		return
	}
	for at := head; ; at = t.books[at].next {
		if t.books[at].next == id {
			t.books[at].next = b.next
			return
		}
	}
}

// settle makes up to n ids usable again whose readers have left.
func (t *setTable) settle(n int) {
	for ; n > 0 && len(t.limbo) > 0 && t.epochs.quiet(t.limbo[0].tag); n-- {
		id := t.limbo[0].id
		t.limbo = t.limbo[1:]
		t.put(id, nil)
		t.unused = append(t.unused, id)
	}
}

// known counts the sets that are not in limbo: live and idle ones.
func (t *setTable) known() int { return len(t.books) - 1 - len(t.unused) - len(t.limbo) }
