package policy

import (
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/routerfleet/routerfleet/router/index"
	"github.com/routerfleet/routerfleet/router/workers"
)

// cacheAware chooses the rank on which the prompt costs least, cached blocks counted. See the package doc.
type cacheAware struct {
	knobs       Knobs
	directory   Directory
	suspicions  Suspicions
	now         func() time.Time
	predictions *predictions
	texts       *predictions // of prompts without block keys
	truths      truths
	rosters     rosters
	metrics     *metrics
	scratch     sync.Pool
}

var _ Decider = (*cacheAware)(nil)

func newCacheAware(o Options) (Policy, error) {
	knobs := DefaultKnobs()
	if o.Knobs != nil {
		knobs = *o.Knobs
	}
	if err := knobs.Validate(); err != nil {
		return nil, fmt.Errorf("weights of policy %s: %w", NameCacheAware, err)
	}
	if o.Directory == nil {
		o.Directory = NewStatic(NewView(nil))
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	p := &cacheAware{
		knobs: knobs, directory: o.Directory, suspicions: o.Suspicions, now: o.Now,
		predictions: newPredictions(knobs.PredictTTL, o.Now()),
		texts:       newPredictions(approximateTTL, o.Now()),
		scratch:     sync.Pool{New: func() any { return new(scores) }},
	}
	var err error
	if p.metrics, err = newMetrics(o.Registerer, p); err != nil {
		return nil, fmt.Errorf("register metrics of policy %s: %w", NameCacheAware, err)
	}
	return p, nil
}

func (*cacheAware) Name() string { return NameCacheAware }

// Pick is Decide and Sent in one, for callers that do not learn.
func (p *cacheAware) Pick(r Request, candidates []*workers.Rank) (*workers.Rank, bool) {
	d, ok := p.Decide(r, candidates)
	if ok {
		p.Sent(d)
	}
	return d.Rank, ok
}

func (p *cacheAware) Decide(r Request, candidates []*workers.Rank) (Decision, bool) {
	if len(candidates) == 0 {
		return Decision{}, false
	}
	s := p.scratch.Get().(*scores)
	defer p.release(s)
	p.score(s, r, candidates)
	p.metrics.decided(s.reason)
	return s.decision(candidates), true
}

// release gives scratch memory back, without what it refers to.
func (p *cacheAware) release(s *scores) {
	clear(s.keys)
	s.roster, s.texts = nil, nil
	p.scratch.Put(s)
}

func (p *cacheAware) Sent(d Decision) {
	if len(d.keys) > 0 {
		p.predictions.sent(d.keys, d.depth, tenant{d.hash, uint32(d.life)}, p.now())
	}
	if len(d.texts) > 0 {
		p.texts.sent(d.texts, 0, tenant{d.hash, uint32(d.life)}, p.now())
	}
}

func (p *cacheAware) Unsent(d Decision) {
	if len(d.keys) > 0 {
		p.predictions.unsent(d.keys, d.depth, tenant{d.hash, uint32(d.life)})
	}
	if d.chunks < len(d.texts) {
		p.texts.unsent(d.texts, d.chunks, tenant{d.hash, uint32(d.life)})
	}
}

func (p *cacheAware) Observe(d Decision, cachedTokens int) {
	if d.truth != nil && cachedTokens >= 0 {
		d.truth.observe(d.life, int64(d.promised), int64(d.blockSize), int64(cachedTokens), p.suspicions)
	}
}

// score is what one candidate comes to.
type score struct {
	load      workers.Load
	depth     int32 // blocks its index holds
	weighted  int32 // the same by tier, in hundredths of a block
	predicted int32 // blocks by predicted credit, 0 when the index knows as much
	chunks    int32 // chunks of text it was sent lately, of a prompt without block keys
	trust     Trust
	life      uint64
	believed  int32 // percent
	credit    int64 // tokens
	terms     terms
	verdict   verdict
	tied      bool // costs within one token of the least
}

// scores is the memory of one decision, used again for another.
type scores struct {
	roster  *roster
	prompt  int64
	rows    []score
	results []index.Result // by catalog
	keys    [][]index.Key  // by catalog
	levels  []uint64       // a bit for each level that was asked for predicted credit
	hits    []hit
	tie     rendezvous
	// texts are the keys of a prompt's text where it has no others, of some chunk tokens each.
	texts []index.Key
	chunk int

	chosen int
	reason Reason
}

// hit is a rank with predicted credit from a level on.
type hit struct {
	level int32
	tenant
}

// score fills s for a request and chooses.
func (p *cacheAware) score(s *scores, r Request, candidates []*workers.Rank) {
	s.roster = p.rosters.of(r.Model, p.directory.View(), candidates, &p.truths)
	s.prompt = int64(min(max(0, r.PromptTokens), maxTokens))
	s.match(r.Keys, p.knobs.tiers())
	crowd, now := guard{pileUp: int64(p.knobs.PileUpTokens)}, p.now()
	for i, c := range candidates {
		row := &s.rows[i]
		row.load = c.LoadAt(now)
		crowd.add(queued(row.load), row.load.Active)
	}
	if p.knobs.PredictTTL > 0 {
		s.predict(p.predictions, now)
	}
	s.approximate(p.texts, r.Keys, now)
	for i := range s.rows {
		row := &s.rows[i]
		s.weigh(i, p.knobs)
		row.terms = p.knobs.cost(row.load, s.prompt, row.credit)
		row.verdict = crowd.judge(queued(row.load), row.load.Active)
	}
	s.choose(r.Key)
}

// match asks each catalog once. What a rank's standing is comes first: should the rank begin anew meanwhile, what is found
// of its new life counts for the one before, which nobody asks about any more.
func (s *scores) match(source KeySource, tiers index.Weights) {
	n := len(s.roster.seats)
	if cap(s.rows) < n {
		s.rows = make([]score, n)
	}
	s.rows = s.rows[:n]
	clear(s.rows)
	for i := range s.roster.seats {
		if seat := &s.roster.seats[i]; seat.catalog != none {
			s.rows[i].trust, s.rows[i].life = seat.standing.Standing()
		}
	}
	clear(s.keys)
	s.keys = s.keys[:0]
	for i, c := range s.roster.catalogs {
		if i == len(s.results) {
			s.results = append(s.results, index.Result{})
		}
		var keys []index.Key
		if source != nil {
			keys = source.Keys(c.Space)
		}
		s.keys = append(s.keys, keys)
		if len(keys) > 0 {
			c.Matcher.Match(keys, c.Mode, tiers, &s.results[i])
		}
	}
	for i := range s.roster.seats {
		seat := &s.roster.seats[i]
		if seat.catalog != none && len(s.keys[seat.catalog]) > 0 {
			s.rows[i].depth, s.rows[i].weighted = s.results[seat.catalog].Of(seat.rank)
		}
	}
}

// predict merges predicted credit in: for each depth that occurs, the ranks that were sent more from there on.
func (s *scores) predict(p *predictions, at time.Time) {
	now := p.clock(at)
	for catalog, keys := range s.keys {
		words := (len(keys) + 63) / 64
		if cap(s.levels) < words {
			s.levels = make([]uint64, words)
		}
		s.levels, s.hits = s.levels[:words], s.hits[:0]
		clear(s.levels)
		for i := range s.rows {
			level := int(s.rows[i].depth)
			if s.roster.seats[i].catalog != catalog || level >= len(keys) || s.levels[level/64]>>(level%64)&1 != 0 {
				continue
			}
			s.levels[level/64] |= 1 << (level % 64)
			p.at(keys, level, now, func(t tenant) { s.hits = append(s.hits, hit{int32(level), t}) })
		}
		for _, h := range s.hits {
			i, ok := s.roster.byHash[h.rank]
			if ok && s.rows[i].depth == h.level && uint32(s.rows[i].life) == h.life {
				s.rows[i].predicted = int32(p.depth(keys, int(h.level), now, h.tenant))
			}
		}
	}
}

// weigh turns what a candidate holds into credit.
func (s *scores) weigh(i int, k Knobs) {
	row, seat := &s.rows[i], &s.roster.seats[i]
	if row.chunks > 0 {
		row.credit = s.approximateCredit(row, k)
		return
	}
	if seat.catalog == none {
		return
	}
	row.believed = seat.truth.of(row.life).discount(row.trust, int32(k.UntrustedPercent))
	blocks := int64(row.weighted)
	if row.predicted > row.depth { // what it holds already counts by its tier
		blocks += percent * int64(row.predicted-row.depth)
	}
	size := int64(s.roster.catalogs[seat.catalog].Space.BlockSize)
	row.credit = credit(blocks, size, int64(row.believed), seat.capacity, s.prompt)
}

// choose takes the cheapest candidate that the guard allows; within one token the request's key decides.
func (s *scores) choose(key uint64) {
	least, leastOfAll := int64(math.MaxInt64), int64(math.MaxInt64)
	for i := range s.rows {
		total := s.rows[i].terms.total()
		leastOfAll = min(leastOfAll, total)
		if s.rows[i].verdict == allowed {
			least = min(least, total)
		}
	}
	if least == math.MaxInt64 { // loads moved between two reads: nobody is better off elsewhere
		least = leastOfAll
		for i := range s.rows {
			s.rows[i].verdict = allowed
		}
	}
	s.tie.begin(key)
	for i := range s.rows {
		row := &s.rows[i]
		if row.tied = row.verdict == allowed && row.terms.total() <= least+percent; row.tied {
			s.tie.offer(i, s.roster.seats[i].identity)
		}
	}
	s.chosen = s.tie.at
	s.reason = s.why(leastOfAll+percent < least)
}

func (s *scores) why(guarded bool) Reason {
	row := &s.rows[s.chosen]
	switch {
	case guarded:
		return Guarded
	case row.chunks > 0 && row.credit > 0:
		return ApproximateHit
	case len(s.roster.catalogs) == 0:
		return NoIndex
	case !s.keyed():
		return NoKeys
	case row.credit > 0 && row.predicted > row.depth:
		return PredictedHit
	case row.credit > 0:
		return CacheHit
	}
	for i := range s.rows {
		if s.rows[i].credit > 0 {
			return CacheOverridden
		}
	}
	return CacheMiss
}

func (s *scores) keyed() bool {
	for _, keys := range s.keys {
		if len(keys) > 0 {
			return true
		}
	}
	return false
}

// decision copies the choice out of the scratch memory.
func (s *scores) decision(candidates []*workers.Rank) Decision {
	row, seat := &s.rows[s.chosen], &s.roster.seats[s.chosen]
	d := Decision{Rank: candidates[s.chosen], Reason: s.reason, CreditTokens: int(row.credit)}
	if len(s.texts) > 0 {
		d.texts, d.chunks, d.hash, d.life = s.texts, int(row.chunks), seat.hash, row.life
		return d
	}
	if seat.catalog == none || len(s.keys[seat.catalog]) == 0 {
		return d
	}
	d.depth, d.hash, d.truth, d.life = int(row.depth), seat.hash, seat.truth, row.life
	d.blockSize = s.roster.catalogs[seat.catalog].Space.BlockSize
	d.keys = whole(s.keys[seat.catalog], s.prompt, d.blockSize)
	d.promised = reusable(row.depth, s.prompt, d.blockSize)
	return d
}

// whole leaves out the key of a last block that the prompt does not fill: no engine keeps that.
func whole(keys []index.Key, prompt int64, blockSize int) []index.Key {
	return keys[:min(int64(len(keys)), prompt/int64(blockSize))]
}

// reusable cuts a depth to what an engine can reuse of a prompt: it always computes at least the last token.
func reusable(depth int32, prompt int64, blockSize int) int32 {
	return int32(min(int64(depth), max(0, prompt-1)/int64(blockSize)))
}
