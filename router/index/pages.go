package index

const (
	// pageSlots is the slots of a page. 256 of 24 bytes: a segment of a large index has dozens of pages, so that it can
	// grow by any share, and the pages' addresses of 8 million blocks fit a processor's second cache.
	pageBits  = 8
	pageSlots = 1 << pageBits

	// minChunk and maxChunk are how many pages are taken from the runtime at once, 0.4 to 8 MB: a quarter of what is
	// there, so that small indexes stay small, and large ones can have huge pages (2 MB) for most of their memory. The
	// runtime may have to clear a chunk, which at 8 MB takes below a millisecond.
	minChunk = 64
	maxChunk = 1360
)

// page is a part of a segment. It holds no pointer: the garbage collector does not look into it.
type page struct {
	slots [pageSlots]slot
	// seen is one bit a slot, set by readers for the deepest level they found: the clock hand's second chance.
	seen [pageSlots / 64]uint64
	// chunk is where the page came from. Writer only.
	chunk int
}

// chunk is memory for many pages, one allocation.
type chunk struct {
	pages []page
	fresh int     // pages from here on were never used
	free  []*page // used before
}

func (c *chunk) left() int { return len(c.pages) - c.fresh + len(c.free) }

// pagePool hands out pages and takes them back. A table that grows all the time makes garbage all the time, as much as
// the runtime is told to let lie; pages of one size are used again instead, as soon as no reader can see them. It
// belongs to the writer.
type pagePool struct {
	epochs *epochs
	chunks []*chunk // nil where one was given back
	low    int      // chunks before it have no page left
	total  int      // pages of all chunks
	free   int      // of them, those that may be handed out
	limbo  []retiredPages
}

// retiredPages are those of a segment that was replaced, which readers may still probe.
type retiredPages struct {
	pages []*page
	tag   uint64
}

// take gives an empty page.
func (p *pagePool) take() *page {
	if p.free == 0 {
		p.settle()
	}
	if p.free == 0 {
		p.grow()
	}
	for p.chunks[p.low] == nil || p.chunks[p.low].left() == 0 {
		p.low++
	}
	p.free--
	c := p.chunks[p.low]
	if n := len(c.free); n > 0 {
		pg := c.free[n-1]
		c.free = c.free[:n-1]
		clear(pg.slots[:])
		clear(pg.seen[:])
		return pg
	}
	pg := &c.pages[c.fresh]
	c.fresh++
	pg.chunk = p.low
	return pg
}

// grow takes a chunk from the runtime.
func (p *pagePool) grow() {
	n := min(max(minChunk, p.total/4), maxChunk)
	c := &chunk{pages: make([]page, n)}
	adviseHuge(c.pages)
	p.total += n
	p.free += n
	for p.low = range p.chunks {
		if p.chunks[p.low] == nil {
			p.chunks[p.low] = c
			return
		}
	}
	p.low = len(p.chunks)
	p.chunks = append(p.chunks, c)
}

// retire takes pages that readers may still probe. The segment must have been replaced before.
func (p *pagePool) retire(pages []*page) {
	p.limbo = append(p.limbo, retiredPages{pages, p.epochs.retire()})
	p.settle()
}

// settle takes back pages whose readers have left, and tells whether others wait.
func (p *pagePool) settle() (waiting bool) {
	for len(p.limbo) > 0 && p.epochs.quiet(p.limbo[0].tag) {
		for _, pg := range p.limbo[0].pages {
			p.giveBack(pg)
		}
		p.limbo[0].pages = nil
		p.limbo = p.limbo[1:]
	}
	return len(p.limbo) > 0
}

// giveBack makes a page usable again. A chunk that nobody uses goes back to the runtime, unless it is all there is to
// hand out: an index on the edge would take it again at once.
func (p *pagePool) giveBack(pg *page) {
	at := pg.chunk
	c := p.chunks[at]
	c.free = append(c.free, pg)
	p.free++
	p.low = min(p.low, at)
	if n := len(c.pages); c.left() == n && p.free >= 2*n {
		p.chunks[at] = nil
		p.total -= n
		p.free -= n
	}
}
