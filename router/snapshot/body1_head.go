package snapshot

import (
	"math"

	"github.com/routerfleet/routerfleet/router/cursor"
)

// table1 is what stands before the nodes.
type table1 struct {
	format             int64
	blockSize          int64
	bigram, ready      bool
	workers            []worker1
	cursors            [][2]int64
	sawFormat, atNodes bool
}

// readHead reads up to the first node. The open stack writes what is needed to vet before the nodes; a body that does not
// would have to be held whole, and is refused.
func (j *jsonReader) readHead() (h table1) {
	j.expect('{')
	for first := true; !h.atNodes && j.more('}', &first); {
		key := j.text()
		j.expect(':')
		switch key {
		case "format":
			h.format, h.sawFormat = j.integer(), true
			if h.format != format1 && j.err == nil {
				j.fail(reject(UnknownFormat, "the body is of format %d", h.format))
			}
		case "block_size":
			h.blockSize = j.upTo(math.MaxUint32)
		case "is_bigram":
			h.bigram = j.boolean()
		case "producer_ready":
			h.ready = j.boolean()
		case "workers":
			j.array(func() { h.workers = append(h.workers, j.worker(len(h.workers))) })
		case "cursors":
			j.array(func() { h.cursors = append(h.cursors, j.cursor(len(h.cursors))) })
		case "nodes":
			j.expect('[')
			h.atNodes = true
		default:
			j.skip(0)
		}
	}
	if !h.sawFormat && j.err == nil {
		j.fail(reject(UnknownFormat, "the body names no format before its nodes"))
	}
	if !h.atNodes && j.err == nil {
		j.fail(reject(Malformed, "the body has no nodes"))
	}
	return h
}

func (j *jsonReader) worker(before int) (w worker1) {
	if before >= maxRows {
		j.malformed("too many workers")
		return w
	}
	j.object(func(key string) {
		switch key {
		case "url":
			w.URL = j.text()
		case "dp_rank":
			w.DP = int32(j.upTo(math.MaxInt32))
		default:
			j.skip(0)
		}
	})
	return w
}

func (j *jsonReader) cursor(before int) (c [2]int64) {
	if before >= maxRows {
		j.malformed("too many cursors")
		return c
	}
	n := 0
	j.array(func() {
		if n >= len(c) {
			j.malformed("a cursor of more than two numbers")
			return
		}
		c[n] = j.integer()
		n++
	})
	if n < len(c) && j.err == nil {
		j.malformed("a cursor of less than two numbers")
	}
	return c
}

// fill takes the head into a table.
func (h *table1) fill(key SectionKey) *Table {
	t := &Table{Format: format1, Ready: h.ready}
	for _, c := range h.cursors {
		if c[0] < 0 || c[0] >= int64(len(h.workers)) {
			continue
		}
		w := h.workers[c[0]]
		r := Row{Worker: Worker{URL: w.URL}, DP: w.DP, Exportable: true, WalkedTo: c[1]}
		r.Cursor = cursor.Cursor{Incarnation: cursor.Incarnation{Worker: w.URL}, Seq: c[1], Proof: cursor.Unwitnessed}
		t.Rows = append(t.Rows, TableRow{key, r})
	}
	return t
}
