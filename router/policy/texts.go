package policy

import (
	"time"

	"github.com/routerfleet/routerfleet/router/index"
)

// ApproximateSource is a KeySource that has something to go by where block keys cannot be known.
type ApproximateSource interface {
	KeySource
	// Approximate returns keys of the prompt's text in chunks, each standing for all text before it, and how many tokens a
	// chunk has about. None when nothing should be made of it. They are comparable to each other only, and to nothing an
	// engine says.
	Approximate() (keys []index.Key, chunkTokens int)
}

// approximateTTL is how long a text counts as cached where it was sent. Engines tell nothing of it: longer, and what was
// evicted counts too often.
const approximateTTL = 5 * time.Minute

// approximate credits ranks with the text they were sent lately, for a prompt without block keys in any index. It is a guess
// and counts as little as blocks of an untrusted rank; it ends with the rank's life where that is known.
func (s *scores) approximate(p *predictions, source KeySource, at time.Time) {
	s.texts, s.chunk = nil, 0
	a, ok := source.(ApproximateSource)
	if !ok || s.keyed() {
		return
	}
	if s.texts, s.chunk = a.Approximate(); len(s.texts) == 0 {
		return
	}
	now := p.clock(at)
	s.hits = s.hits[:0]
	p.at(s.texts, 0, now, func(t tenant) { s.hits = append(s.hits, hit{0, t}) })
	for _, h := range s.hits {
		// A life of 0 is that of a rank of which nothing was heard yet.
		if i, ok := s.roster.byHash[h.rank]; ok && (h.life == 0 || uint32(s.rows[i].life) == h.life) {
			s.rows[i].chunks = int32(p.depth(s.texts, 0, now, h.tenant))
		}
	}
}

// approximateCredit is a row's in tokens.
func (s *scores) approximateCredit(row *score, k Knobs) int64 {
	return credit(percent*int64(row.chunks), int64(s.chunk), int64(k.UntrustedPercent), 0, s.prompt)
}
