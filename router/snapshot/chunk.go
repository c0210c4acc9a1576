package snapshot

import (
	"slices"

	"github.com/routerfleet/routerfleet/router/index"
)

// MaxChunkNodes bounds the blocks, the hashes without a block and the orphans of one chunk.
const MaxChunkNodes = 8192

// Chunk is a part of a section. It is immutable and owns its memory; its methods cannot fail. It has blocks (scheme tokens:
// with their hashes), or hashes of one rank without blocks, or orphans of one rank.
type Chunk struct {
	keys    []index.Key
	runs    []chunkRun
	sets    [][]index.Holding
	hashes  []rankHash
	orphans []rankOrphan
}

// chunkRun is keys[from:to], with one set.
type chunkRun struct {
	parent   index.Parent
	from, to int
	set      int
}

type rankHash struct {
	rank int
	HashRow
}

type rankOrphan struct {
	rank int
	OrphanRow
}

// append adds a block, to the last run if it goes on there.
func (c *Chunk) append(k index.Key, p index.Parent, who []index.Holding) {
	if n := len(c.runs); n > 0 && p.Known && p.Key == c.keys[len(c.keys)-1] && slices.Equal(who, c.sets[c.runs[n-1].set]) {
		c.keys = append(c.keys, k)
		c.runs[n-1].to++
		return
	}
	set := len(c.sets) - 1
	if set < 0 || !slices.Equal(who, c.sets[set]) {
		set++
		c.sets = append(c.sets, slices.Clone(who))
	}
	c.keys = append(c.keys, k)
	c.runs = append(c.runs, chunkRun{parent: p, from: len(c.keys) - 1, to: len(c.keys), set: set})
}

// Runs gives the chunk's chains: keys[0] follows p, each other key the one before it, all with the same carriers. The
// numbers in who are places in Vetted.Ranks. The callee must not change or keep the slices.
func (c *Chunk) Runs(f func(p index.Parent, keys []index.Key, who []index.Holding)) {
	for _, r := range c.runs {
		f(r.parent, c.keys[r.from:r.to], c.sets[r.set])
	}
}

// Nodes gives the same block by block.
func (c *Chunk) Nodes(f func(k index.Key, p index.Parent, who []index.Holding)) {
	c.Runs(func(p index.Parent, keys []index.Key, who []index.Holding) {
		for _, k := range keys {
			f(k, p, who)
			p = index.After(k)
		}
	})
}

// Hashes gives the engine hashes of ranks (scheme tokens), by place in Vetted.Ranks: of each block in the chunk, and of
// blocks that are not in the index.
func (c *Chunk) Hashes(f func(rank int, h HashRow)) {
	for i := range c.hashes {
		f(c.hashes[i].rank, c.hashes[i].HashRow)
	}
}

// Orphans gives the orphans of ranks (scheme tokens), oldest first.
func (c *Chunk) Orphans(f func(rank int, o OrphanRow)) {
	for i := range c.orphans {
		f(c.orphans[i].rank, c.orphans[i].OrphanRow)
	}
}

// Len counts what is in the chunk: blocks, hashes and orphans.
func (c *Chunk) Len() int { return len(c.keys) + len(c.hashes) + len(c.orphans) }
