package bpe

import (
	"math"
	"math/bits"
	"sync"
)

// noRank is that of a pair that does not merge.
const noRank = math.MaxUint32

// pairTable maps a pair of neighbouring ids to the rank of their merge and the id it gives. Open addressing at a load of
// at most half: this is what a cold word pays for, several times a byte.
type pairTable struct {
	slots []pairSlot
	shift int // the hash's upper bits are the slot
}

// pairSlot has 16 bytes. An empty one has noRank.
type pairSlot struct {
	left, right uint32
	rank, id    uint32
}

func newPairTable(merges int) *pairTable {
	width := max(4, bits.Len(uint(2*merges)))
	t := &pairTable{slots: make([]pairSlot, 1<<width), shift: 64 - width}
	for i := range t.slots {
		t.slots[i].rank = noRank
	}
	return t
}

// find gives the slot of the pair, or the empty one it would have.
func (t *pairTable) find(left, right uint32) *pairSlot {
	// Fibonacci hashing: 2^64 over the golden ratio spreads neighbouring ids.
	h := (uint64(left)<<32 | uint64(right)) * 0x9e3779b97f4a7c15
	for i := h >> t.shift; ; i = (i + 1) & uint64(len(t.slots)-1) {
		s := &t.slots[i]
		if s.rank == noRank || s.left == left && s.right == right {
			return s
		}
	}
}

// put adds a merge. Of two for one pair the later counts, as in the reference.
func (t *pairTable) put(left, right, rank, id uint32) {
	*t.find(left, right) = pairSlot{left, right, rank, id}
}

// shortWord is up to how many bytes a word is merged by looking for the lowest rank among all pairs, without a heap: the
// work grows with the square of the length, and short ones are nearly all there are.
const shortWord = 128

// part is a symbol of a word in work, with the merge of it and its successor.
type part struct {
	id, rank, merged uint32
}

// merge appends the ids of a word to dst: again and again the pair of the lowest rank is merged, the leftmost first.
func (t *Tokenizer) merge(dst []uint32, word string) []uint32 {
	if len(word) > shortWord {
		return t.mergeLong(dst, word)
	}
	var room [shortWord]part
	parts := room[:len(word)]
	for i := range parts {
		parts[i].id = t.byteIDs[word[i]]
	}
	for i := range parts {
		t.look(parts, i)
	}
	for {
		lowest, at := uint32(noRank), -1
		for i := range parts {
			if parts[i].rank < lowest {
				lowest, at = parts[i].rank, i
			}
		}
		if at < 0 {
			break
		}
		parts[at].id = parts[at].merged
		parts = append(parts[:at+1], parts[at+2:]...)
		t.look(parts, at)
		if at > 0 {
			t.look(parts, at-1)
		}
	}
	for _, p := range parts {
		dst = append(dst, p.id)
	}
	return dst
}

// look finds the merge of part i and its successor.
func (t *Tokenizer) look(parts []part, i int) {
	if i+1 == len(parts) {
		parts[i].rank = noRank
		return
	}
	s := t.pairs.find(parts[i].id, parts[i+1].id)
	parts[i].rank, parts[i].merged = s.rank, s.id
}

// link is a symbol of a long word, in a list of those that are left. A symbol that was merged into its predecessor has
// the id gone.
type link struct {
	id         uint32
	prev, next int32 // -1 at the ends
}

const gone = math.MaxUint32

// candidate is a pair that could merge when it was found. The order is rank, then place.
type candidate struct {
	rank        uint32
	at          int32
	left, right uint32 // the ids it was found with: it is stale when they changed
	merged      uint32
}

func (c candidate) before(d candidate) bool {
	return c.rank < d.rank || c.rank == d.rank && c.at < d.at
}

// longWork is what merging a long word needs, kept between words.
type longWork struct {
	links []link
	heap  []candidate
}

var longWorks = sync.Pool{New: func() any { return new(longWork) }}

// mergeLong does what merge does, in a time that grows with n log n.
func (t *Tokenizer) mergeLong(dst []uint32, word string) []uint32 {
	w := longWorks.Get().(*longWork)
	defer longWorks.Put(w)
	w.links, w.heap = w.links[:0], w.heap[:0]
	for i := range len(word) {
		w.links = append(w.links, link{t.byteIDs[word[i]], int32(i) - 1, int32(i) + 1})
	}
	w.links[len(word)-1].next = -1
	for i := range len(word) - 1 {
		w.offer(t.pairs, int32(i))
	}
	for len(w.heap) > 0 {
		w.apply(t.pairs, w.pop())
	}
	for i := int32(0); i >= 0; i = w.links[i].next {
		dst = append(dst, w.links[i].id)
	}
	return dst
}

// apply merges a candidate unless it is stale, and offers the two pairs that the merge makes.
func (w *longWork) apply(pairs *pairTable, c candidate) {
	l := &w.links[c.at]
	if l.id != c.left || l.next < 0 || w.links[l.next].id != c.right {
		return
	}
	r := &w.links[l.next]
	l.id, r.id = c.merged, gone
	l.next = r.next
	if l.next >= 0 {
		w.links[l.next].prev = c.at
		w.offer(pairs, c.at)
	}
	if l.prev >= 0 {
		w.offer(pairs, l.prev)
	}
}

// offer adds the pair at a place, which has a successor, to the heap if it merges.
func (w *longWork) offer(pairs *pairTable, at int32) {
	l := w.links[at]
	right := w.links[l.next].id
	if s := pairs.find(l.id, right); s.rank != noRank {
		w.push(candidate{rank: s.rank, at: at, left: l.id, right: right, merged: s.id})
	}
}

func (w *longWork) push(c candidate) {
	w.heap = append(w.heap, c)
	for i := len(w.heap) - 1; i > 0; {
		parent := (i - 1) / 2
		if !w.heap[i].before(w.heap[parent]) {
			break
		}
		w.heap[i], w.heap[parent] = w.heap[parent], w.heap[i]
		i = parent
	}
}

func (w *longWork) pop() candidate {
	top, last := w.heap[0], len(w.heap)-1
	w.heap[0] = w.heap[last]
	w.heap = w.heap[:last]
	for i := 0; ; {
		least := i
		for child := 2*i + 1; child <= 2*i+2 && child < last; child++ {
			if w.heap[child].before(w.heap[least]) {
				least = child
			}
		}
		if least == i {
			return top
		}
		w.heap[i], w.heap[least] = w.heap[least], w.heap[i]
		i = least
	}
}
