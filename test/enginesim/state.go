package enginesim

// Totals count what a rank did since it started.
type Totals struct {
	Requests      int64 `json:"requests"`       // submitted
	Finished      int64 `json:"finished"`       // answered whole
	Aborted       int64 `json:"aborted"`        // broken off before they were answered
	Rejected      int64 `json:"rejected"`       // the queue was full
	PromptTokens  int64 `json:"prompt_tokens"`  // of prompts whose prefill started
	CachedTokens  int64 `json:"cached_tokens"`  // of those, found in the cache
	PromptBlocks  int64 `json:"prompt_blocks"`  // short last blocks included
	CachedBlocks  int64 `json:"cached_blocks"`  // of those, found in the cache
	OutputTokens  int64 `json:"output_tokens"`  // produced
	StoredBlocks  int64 `json:"stored_blocks"`  // new in the cache
	RemovedBlocks int64 `json:"removed_blocks"` // evicted
	Clears        int64 `json:"clears"`         // of the whole cache
	Restarts      int64 `json:"restarts"`       // in place
}

// Add returns the sum of both.
func (t Totals) Add(o Totals) Totals {
	t.Requests += o.Requests
	t.Finished += o.Finished
	t.Aborted += o.Aborted
	t.Rejected += o.Rejected
	t.PromptTokens += o.PromptTokens
	t.CachedTokens += o.CachedTokens
	t.PromptBlocks += o.PromptBlocks
	t.CachedBlocks += o.CachedBlocks
	t.OutputTokens += o.OutputTokens
	t.StoredBlocks += o.StoredBlocks
	t.RemovedBlocks += o.RemovedBlocks
	t.Clears += o.Clears
	t.Restarts += o.Restarts
	return t
}

// Blocks says how the pages of a rank are used; the four uses sum to Total.
type Blocks struct {
	Total   int `json:"total"`
	Pinned  int `json:"pinned"`  // cached, and in use by a live sequence
	Cached  int `json:"cached"`  // cached, and evictable
	Private int `json:"private"` // reserved by live sequences
	Free    int `json:"free"`
}

// RankState is one rank at one moment.
type RankState struct {
	Rank    int    `json:"rank"`
	Running int    `json:"running"` // prefilling or decoding
	Queued  int    `json:"queued"`
	Blocks  Blocks `json:"blocks"`
	Totals  Totals `json:"totals"`
}

func (r *rank) state() RankState {
	n := r.cache.Counts()
	return RankState{
		Rank:    r.index,
		Running: r.running(),
		Queued:  len(r.queue),
		Blocks:  Blocks{r.opts.Blocks, n.Pinned, n.Cached, n.Private, n.Free},
		Totals:  r.totals,
	}
}
