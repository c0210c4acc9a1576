package index

// Limit sets another bound on the nodes; 0 means none. What is beyond it goes as if the index had always had it: a little at
// each store, the rest in Work. Writer only.
func (x *Index) Limit(maxBlocks int) { x.max = maxBlocks }
