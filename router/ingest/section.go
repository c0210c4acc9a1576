package ingest

import (
	"fmt"
	"sync/atomic"

	"github.com/routerfleet/routerfleet/router/index"
)

// SectionKey says what an index is about. Block keys compare within one section only.
type SectionKey struct {
	Model     string
	Scheme    index.Scheme
	BlockSize int  // tokens a block
	Bigram    bool // scheme sglang: keys are over pairs of tokens
}

// String names the section for logs.
func (k SectionKey) String() string {
	s := fmt.Sprintf("%s/%s/%d", k.Model, k.Scheme, k.BlockSize)
	if k.Bigram {
		s += "/bigram"
	}
	return s
}

// Section is one index. Readers use Key and Index.Match; the rest is the pump's.
type Section struct {
	Key   SectionKey
	Index *index.Index
	// Seed is that of the tokens scheme: readers chain their keys from Root with it.
	Seed index.Seed

	seedID  uint64
	ledgers int  // ranks registered in it
	busy    bool // Work has more to do
	limit   int  // blocks it may hold now; 0 means no bound
	keys    []index.Key
	random  func() uint64
	stats   atomic.Pointer[index.Stats]
}

// Stats gives the index's figures as of the last tick.
func (s *Section) Stats() index.Stats { return *s.stats.Load() }

// account publishes the index's figures.
func (s *Section) account() {
	st := s.Index.Stats()
	s.stats.Store(&st)
}

// Root gives the key a request's chain begins from in the tokens scheme.
func (s *Section) Root(cacheSalt string) index.Key { return s.Seed.RootKey(s.Key.Model, cacheSalt) }
