package loadgen

import "time"

// tally is all numbers of a run. It has one writer, and no clock.
type tally struct {
	ok, failed         int
	latency, ttft, lag histogram // of good answers; lag of all paced requests
	prompt, cached     int64     // tokens of good answers that told their usage
	produced           int64
	opened, retried    int
	codes, engines     map[string]int
	failures           []Failure
}

// Failure is one failed request, as a result shows it.
type Failure struct {
	Request int     `json:"request"`    // its index in the run
	At      float64 `json:"at_seconds"` // when it was sent, since the start
	After   float64 `json:"after_seconds"`
	Code    string  `json:"code"`
	Status  int     `json:"status"` // 0: no headers came
	Text    string  `json:"text"`
}

func newTally() *tally {
	return &tally{codes: make(map[string]int), engines: make(map[string]int)}
}

func (t *tally) add(o outcome) {
	t.opened += o.opened
	t.retried += o.retried
	if o.paced {
		t.lag.add(o.late)
	}
	if o.failure != nil {
		t.addFailure(o)
		return
	}
	t.ok++
	t.latency.add(o.latency)
	t.ttft.add(o.ttft)
	if o.answer.usage {
		t.prompt += int64(o.answer.prompt)
		t.cached += int64(o.answer.cached)
		t.produced += int64(o.answer.produced)
	}
	if o.answer.engine != "" {
		count(t.engines, o.answer.engine)
	}
}

func (t *tally) addFailure(o outcome) {
	t.failed++
	count(t.codes, o.failure.code)
	if len(t.failures) < maxFailuresKept {
		t.failures = append(t.failures, Failure{
			Request: o.index, At: o.began.Seconds(), After: o.latency.Seconds(),
			Code: o.failure.code, Status: o.failure.status, Text: o.failure.text,
		})
	}
}

// count adds one to name, or to "other" when the other side invents too many.
func count(counts map[string]int, name string) {
	if _, known := counts[name]; !known && len(counts) >= maxCodes {
		name = "other"
	}
	counts[name]++
}

func (t *tally) done() int { return t.ok + t.failed }

// Progress is the line of each second.
type Progress struct {
	Type     string  `json:"type"` // "progress"
	Done     int     `json:"done"`
	Total    int     `json:"total"` // 0: only Duration ends the run
	Failed   int     `json:"failed"`
	RPS      float64 `json:"rps"`      // since the line before
	Fraction float64 `json:"fraction"` // 0 to 1: how far the run is
	Elapsed  float64 `json:"elapsed_seconds"`
}

// Result is the last line.
type Result struct {
	Type     string  `json:"type"` // "result"
	Mode     Mode    `json:"mode"`
	Target   string  `json:"target"`
	Model    string  `json:"model"`
	Requests int     `json:"requests"`
	OK       int     `json:"ok"`
	Failed   int     `json:"failed"`
	Seconds  float64 `json:"seconds"`
	RPS      float64 `json:"rps"`
	// Interrupted says that the run was told to end before its own end.
	Interrupted bool `json:"interrupted"`

	ByCode   map[string]int `json:"by_code"`   // failures
	ByEngine map[string]int `json:"by_engine"` // good answers that name their engine

	PromptTokens     int64    `json:"prompt_tokens"`
	CachedTokens     int64    `json:"cached_tokens"`
	OutputTokens     int64    `json:"output_tokens"`
	CachedTokenRatio *float64 `json:"cached_token_ratio"` // null: nobody told

	Latency *Quantiles `json:"latency_seconds"` // null: nothing was measured
	TTFT    *Quantiles `json:"ttft_seconds"`
	Lag     *Quantiles `json:"lag_seconds"` // how late paced requests were sent

	ConnectionsOpened int `json:"connections_opened"`
	TransportRetries  int `json:"transport_retries"` // sent again by net/http; see the package doc

	Probe         *ProbeResult `json:"probe"` // null: no Direct
	FirstFailures []Failure    `json:"first_failures"`
}

func (t *tally) result(elapsed time.Duration) Result {
	r := Result{
		Type: "result", Requests: t.done(), OK: t.ok, Failed: t.failed, Seconds: elapsed.Seconds(), RPS: rate(t.done(), elapsed),
		ByCode: t.codes, ByEngine: t.engines, PromptTokens: t.prompt, CachedTokens: t.cached, OutputTokens: t.produced,
		Latency: t.latency.summary(), TTFT: t.ttft.summary(), Lag: t.lag.summary(),
		ConnectionsOpened: t.opened, TransportRetries: t.retried, FirstFailures: append([]Failure{}, t.failures...),
	}
	if t.prompt > 0 {
		ratio := float64(t.cached) / float64(t.prompt)
		r.CachedTokenRatio = &ratio
	}
	return r
}

func rate(n int, d time.Duration) float64 {
	if d <= 0 {
		return 0
	}
	return float64(n) / d.Seconds()
}
