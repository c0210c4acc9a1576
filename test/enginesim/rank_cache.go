package enginesim

import (
	"github.com/routerfleet/routerfleet/test/enginesim/cache"
)

// store commits the pages of seq that are computed and not yet cached, and
// notes each run of new ones. Pages another sequence cached meanwhile are shared
// silently, so a run may break.
func (r *rank) store(seq *sequence) {
	full := (seq.computed() - r.opts.overlap()) / r.opts.PageSize
	first := -1 // first block of the present run of new ones
	for i := seq.lease.Blocks(); i < full; i++ {
		stored := seq.lease.Commit(seq.keys[i])
		if stored && first < 0 {
			first = i
		}
		if !stored && first >= 0 {
			r.noteStored(seq, first, i)
			first = -1
		}
	}
	if first >= 0 {
		r.noteStored(seq, first, full)
	}
}

func (r *rank) noteStored(seq *sequence, from, to int) {
	end := to*r.opts.PageSize + r.opts.overlap()
	change := Stored{
		Keys:      seq.keys[from:to:to],
		Tokens:    seq.tokens[from*r.opts.PageSize : end : end],
		PageSize:  r.opts.PageSize,
		Bigram:    r.opts.Bigram,
		CacheSalt: seq.salt,
	}
	if from > 0 {
		change.Parent = &seq.keys[from-1]
	}
	r.totals.StoredBlocks += int64(to - from)
	r.changes = append(r.changes, change)
}

func (r *rank) remove(keys []cache.Key) {
	if len(keys) == 0 {
		return
	}
	r.totals.RemovedBlocks += int64(len(keys))
	r.changes = append(r.changes, Removed{Keys: keys})
}

// clear empties the cache unless a sequence is alive in it.
func (r *rank) clear() bool {
	if !r.cache.Clear() {
		return false
	}
	r.totals.Clears++
	r.changes = append(r.changes, Cleared{})
	return true
}
