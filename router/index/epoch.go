package index

import (
	"math/rand/v2"
	"sync/atomic"
)

// readerSlots is how many readers can be pinned with their epoch known. More are counted only, which delays the reuse
// of ids until they are gone.
const readerSlots = 64

// epochs tells the writer when no reader can hold an id any more.
type epochs struct {
	now      atomic.Uint64 // moved by the writer; starts at 1, 0 marks a free slot
	crowd    atomic.Int64  // readers that found no slot
	pinned   [readerSlots]pin
	quietFor uint64 // writer only: every reader pinned before this epoch has left
}

// pin is one reader's epoch, alone on its cache line.
type pin struct {
	epoch atomic.Uint64
	_     [56]byte
}

// enter pins the present epoch and gives the slot to leave by, -1 for the crowd.
func (e *epochs) enter() int {
	start := rand.Uint32()
	for i := range uint32(4) {
		at := (start + i) % readerSlots
		p := &e.pinned[at]
		if p.epoch.Load() != 0 {
			continue
		}
		if p.epoch.CompareAndSwap(0, e.now.Load()) {
			return int(at)
		}
	}
	e.crowd.Add(1)
	return -1
}

func (e *epochs) leave(slot int) {
	if slot < 0 {
		e.crowd.Add(-1)
		return
	}
	e.pinned[slot].epoch.Store(0)
}

// retire gives the epoch a freed id must outlive, and begins the next: readers that pin from now on cannot find it.
func (e *epochs) retire() uint64 { return e.now.Add(1) - 1 }

// quiet tells whether every reader that was pinned in an epoch up to tag has left.
//
// A reader loads the epoch before it writes its pin. If the writer retires in between, the pin is older than the
// reader's first probe: it only looks more dangerous than it is.
func (e *epochs) quiet(tag uint64) bool {
	if tag < e.quietFor {
		return true
	}
	if e.crowd.Load() != 0 {
		return false
	}
	oldest := e.now.Load()
	for i := range e.pinned {
		if at := e.pinned[i].epoch.Load(); at != 0 && at < oldest {
			oldest = at
		}
	}
	e.quietFor = oldest
	return tag < oldest
}
