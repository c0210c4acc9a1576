package enginesim

import (
	"time"

	"github.com/routerfleet/routerfleet/test/enginesim/cache"
)

// sequence is one prompt being answered. The rank's goroutine owns it, but for
// stream, which has its own lock.
type sequence struct {
	id     uint64
	salt   string
	tokens []uint32 // prompt, then the whole answer; what is produced is a count
	prompt int      // tokens of the prompt
	keys   []cache.Key
	stream *Stream

	lease    *cache.Lease // nil while queued
	cached   int          // prompt tokens found in the cache
	produced int          // answer tokens so far
	due      time.Time    // end of prefill, then of the next token
	slot     int          // position in the decode heap, -1 outside
}

// newSequence plans a request: the keys of every page it will ever fill.
func newSequence(id uint64, req Request, opts Options) *sequence {
	tokens := make([]uint32, 0, len(req.Prompt)+len(req.Output))
	tokens = append(append(tokens, req.Prompt...), req.Output...)
	chain := cache.Chain
	if opts.Bigram {
		chain = cache.BigramChain
	}
	return &sequence{
		id:     id,
		salt:   req.CacheSalt,
		tokens: tokens,
		prompt: len(req.Prompt),
		keys:   chain(tokens, opts.PageSize, req.CacheSalt),
		slot:   -1,
	}
}

func (s *sequence) output() []uint32 { return s.tokens[s.prompt:] }

func (s *sequence) finished() bool { return s.produced >= len(s.tokens)-s.prompt }

// pages is what the sequence occupies at the end of its life.
func (s *sequence) pages(pageSize int) int {
	return (len(s.tokens) + pageSize - 1) / pageSize
}

// computed is the tokens whose cache entries exist: all but the newest one.
func (s *sequence) computed() int {
	return s.prompt + max(0, s.produced-1)
}

// decodeHeap orders decoding sequences by their next token, then by age.
type decodeHeap []*sequence

func (h decodeHeap) Len() int { return len(h) }

func (h decodeHeap) Less(i, j int) bool {
	if h[i].due.Equal(h[j].due) {
		return h[i].id < h[j].id
	}
	return h[i].due.Before(h[j].due)
}

func (h decodeHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].slot, h[j].slot = i, j
}

func (h *decodeHeap) Push(x any) {
	s := x.(*sequence)
	s.slot = len(*h)
	*h = append(*h, s)
}

func (h *decodeHeap) Pop() any {
	old := *h
	s := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	s.slot = -1
	return s
}
