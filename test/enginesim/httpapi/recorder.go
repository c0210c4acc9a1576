package httpapi

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"sync"
	"time"
)

// Record is one generation request as the engine saw it, for tests that ask what
// a router sent.
type Record struct {
	ID         int64       `json:"id"` // counts from 1
	ReceivedAt time.Time   `json:"received_at"`
	Method     string      `json:"method"`
	Path       string      `json:"path"`
	Host       string      `json:"host"`
	Remote     string      `json:"remote"`
	Headers    http.Header `json:"headers"`
	BodyBytes  int         `json:"body_bytes"`
	BodySHA256 string      `json:"body_sha256"`
	Body       string      `json:"body"` // the first 4 KiB

	Rank             int     `json:"rank"` // of the first prompt; -1 when none was reached
	PromptTokens     int     `json:"prompt_tokens"`
	CachedTokens     int     `json:"cached_tokens"`
	CompletionTokens int     `json:"completion_tokens"`
	Status           int     `json:"status"`  // 0: no answer was begun
	Outcome          Outcome `json:"outcome"` // how it ended
	Error            string  `json:"error,omitempty"`
	Seconds          float64 `json:"seconds"` // from receipt to the end; 0 while running
}

// Outcome says how a request ended.
type Outcome string

// The outcomes of a request.
const (
	OutcomeRunning    Outcome = "running"
	OutcomeOK         Outcome = "ok"          // answered whole
	OutcomeRefused    Outcome = "refused"     // an error answer of the engine's own
	OutcomeClientGone Outcome = "client_gone" // the client left first
	OutcomeFault      Outcome = "fault"       // broken by a fault on purpose
	OutcomeStopped    Outcome = "stopped"     // broken by shutdown
)

// recorder remembers the last requests and counts all outcomes.
type recorder struct {
	mu       sync.Mutex
	next     int64
	ring     []*Record // oldest first
	outcomes map[Outcome]int64
}

func newRecorder() *recorder { return &recorder{outcomes: make(map[Outcome]int64)} }

func (r *recorder) begin(req *http.Request, body []byte, now time.Time) *Record {
	sum := sha256.Sum256(body)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.next++
	rec := &Record{
		ID: r.next, ReceivedAt: now, Method: req.Method, Path: req.URL.Path, Host: req.Host,
		Remote: req.RemoteAddr, Headers: req.Header.Clone(),
		BodyBytes: len(body), BodySHA256: hex.EncodeToString(sum[:]), Body: string(body[:min(len(body), maxRecordedBody)]),
		Rank: -1, Outcome: OutcomeRunning,
	}
	if len(r.ring) == maxRecords {
		r.ring = append(r.ring[:0], r.ring[1:]...)
	}
	r.ring = append(r.ring, rec)
	r.outcomes[OutcomeRunning]++
	return rec
}

// update changes a record under the lock.
func (r *recorder) update(rec *Record, change func(*Record)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	change(rec)
}

// end closes a record. Later ends of the same record change nothing.
func (r *recorder) end(rec *Record, outcome Outcome, reason string, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if rec.Outcome != OutcomeRunning {
		return
	}
	rec.Outcome, rec.Error, rec.Seconds = outcome, reason, now.Sub(rec.ReceivedAt).Seconds()
	r.outcomes[OutcomeRunning]--
	r.outcomes[outcome]++
}

// last returns copies of the newest n records, oldest first.
func (r *recorder) last(n int) []Record {
	r.mu.Lock()
	defer r.mu.Unlock()
	from := max(0, len(r.ring)-n)
	records := make([]Record, 0, len(r.ring)-from)
	for _, rec := range r.ring[from:] {
		records = append(records, *rec)
	}
	return records
}

func (r *recorder) counts() map[Outcome]int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	counts := make(map[Outcome]int64, len(r.outcomes))
	for outcome, n := range r.outcomes {
		counts[outcome] = n
	}
	return counts
}

// forget drops the records, not the counts.
func (r *recorder) forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ring = nil
}
