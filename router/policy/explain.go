package policy

import (
	"slices"

	"github.com/routerfleet/routerfleet/router/workers"
)

// Table is the decision table of one request, as X-RouterFleet-Explain answers it. It holds no prompt, key or URL.
type Table struct {
	Policy       string `json:"policy"`
	Model        string `json:"model"`
	PromptTokens int    `json:"promptTokens"`
	// Reason is why the chosen candidate was chosen.
	Reason string `json:"reason"`
	// Total counts the candidates; Candidates lists the cheapest of them, best first.
	Total      int   `json:"total"`
	Candidates []Row `json:"candidates"`
}

// Row is one candidate of a decision table.
type Row struct {
	Worker string `json:"worker"`
	DPRank int    `json:"dpRank"`
	// Chosen says that the request would go here; Tied that it costs within one token of the least, so that the
	// request's key decides; Guard which limit of the pile-up guard keeps the request away, empty for none.
	Chosen bool   `json:"chosen"`
	Tied   bool   `json:"tied"`
	Guard  string `json:"guard,omitempty"`
	// Space is the index the candidate's blocks are in; absent without one.
	Space *RowSpace `json:"space,omitempty"`
	// MatchedBlocks are held by the index; PredictedBlocks, if more, by what the rank was sent moments ago.
	MatchedBlocks   int `json:"matchedBlocks"`
	PredictedBlocks int `json:"predictedBlocks,omitempty"`
	// ApproximateTokens are about what it was sent of the prompt's text lately, where block keys are not known.
	ApproximateTokens int `json:"approximateTokens,omitempty"`
	// TierPercent is what a matched block counts on average, by the memory it is in.
	TierPercent int `json:"tierPercent"`
	// Trust is how far the index is believed, TrustPercent what that leaves of a block.
	Trust        string `json:"trust,omitempty"`
	TrustPercent int    `json:"trustPercent"`
	// CreditTokens is what of the prompt counts as cached.
	CreditTokens int64 `json:"creditTokens"`
	// Load is what this replica has in flight there, Cost what the request would cost, in tokens.
	Load RowLoad `json:"load"`
	Cost RowCost `json:"cost"`
}

// RowSpace names a key space.
type RowSpace struct {
	Scheme    string `json:"scheme"`
	BlockSize int    `json:"blockSize"`
	// Keys is how many blocks of the prompt have keys there.
	Keys int `json:"keys"`
}

// RowLoad is a rank's load.
type RowLoad struct {
	ActiveRequests int64 `json:"activeRequests"`
	// QueuedPrefillTokens are without PrefilledTokens, which the engine has computed by now, by estimate.
	QueuedPrefillTokens int64 `json:"queuedPrefillTokens"`
	PrefilledTokens     int64 `json:"prefilledTokens"`
	DecodeTokens        int64 `json:"decodeTokens"`
}

// RowCost is the cost function by its terms, in tokens.
type RowCost struct {
	Prefill  float64 `json:"prefill"`
	Decode   float64 `json:"decode"`
	Requests float64 `json:"requests"`
	Total    float64 `json:"total"`
}

func rowOf(r *workers.Rank, l workers.Load) Row {
	return Row{
		Worker: r.Worker().Name(), DPRank: r.DP(),
		Load: RowLoad{ActiveRequests: l.Active, QueuedPrefillTokens: queued(l), PrefilledTokens: l.PrefilledTokens, DecodeTokens: l.DecodeTokens},
	}
}

// Explain makes the table of the decision that would be taken now.
func (p *cacheAware) Explain(r Request, candidates []*workers.Rank) Table {
	t := Table{Policy: p.Name(), Model: r.Model, PromptTokens: r.PromptTokens, Total: len(candidates), Candidates: []Row{}}
	if len(candidates) == 0 {
		return t
	}
	s := p.scratch.Get().(*scores)
	defer p.release(s)
	p.score(s, r, candidates)
	t.Reason = s.reason.String()
	for _, i := range s.ranking()[:min(len(candidates), maxExplained)] {
		t.Candidates = append(t.Candidates, s.row(i, candidates[i]))
	}
	return t
}

// ranking orders the candidates: the chosen one, those allowed, those kept away; the cheaper first.
func (s *scores) ranking() []int {
	order := make([]int, len(s.rows))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		switch {
		case a == b:
			return 0
		case a == s.chosen:
			return -1
		case b == s.chosen:
			return 1
		}
		x, y := &s.rows[a], &s.rows[b]
		if held := (x.verdict != allowed) != (y.verdict != allowed); held {
			if x.verdict == allowed {
				return -1
			}
			return 1
		}
		return int(max(-1, min(1, x.terms.total()-y.terms.total())))
	})
	return order
}

func (s *scores) row(i int, rank *workers.Rank) Row {
	from, seat := &s.rows[i], &s.roster.seats[i]
	row := rowOf(rank, from.load)
	row.Chosen, row.Tied, row.Guard = i == s.chosen, from.tied, from.verdict.String()
	row.MatchedBlocks, row.PredictedBlocks = int(from.depth), int(from.predicted)
	row.ApproximateTokens = int(from.chunks) * s.chunk
	row.TrustPercent, row.CreditTokens = int(from.believed), from.credit
	if from.depth > 0 {
		row.TierPercent = int(from.weighted / from.depth)
	}
	if seat.catalog != none {
		space := s.roster.catalogs[seat.catalog].Space
		row.Trust = from.trust.String()
		row.Space = &RowSpace{Scheme: string(space.Scheme), BlockSize: space.BlockSize, Keys: len(s.keys[seat.catalog])}
	}
	row.Cost = RowCost{
		Prefill: tokens(from.terms.prefill), Decode: tokens(from.terms.decode),
		Requests: tokens(from.terms.requests), Total: tokens(from.terms.total()),
	}
	return row
}

func tokens(hundredths int64) float64 { return float64(hundredths) / percent }
