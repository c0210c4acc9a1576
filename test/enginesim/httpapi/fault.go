package httpapi

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/routerfleet/routerfleet/test/enginesim/publish"
)

// FaultName is one of a closed set; catalogue lists them all.
type FaultName string

// The faults. What each does and which parameters it takes is in catalogue; those
// of published events have their names in package publish.
const (
	FaultHealthFail     FaultName = "health_fail"
	FaultReadyFail      FaultName = "ready_fail"
	FaultHangServerInfo FaultName = "hang_server_info"
	FaultModelLie       FaultName = "model_lie"
	FaultStatus         FaultName = "status"
	FaultReset          FaultName = "reset"
	FaultDelayHeaders   FaultName = "delay_headers"
	FaultWrongLength    FaultName = "wrong_length"
	FaultStall          FaultName = "stall"
	FaultCut            FaultName = "cut"
	FaultStreamError    FaultName = "stream_error"
	FaultNoDone         FaultName = "no_done"
	FaultSplitSSE       FaultName = "split_sse"
	FaultSSELines       FaultName = "sse_lines"
	FaultSlowTokens     FaultName = "slow_tokens"
	FaultClearCache     FaultName = "clear_cache"
	FaultCrash          FaultName = "crash"
	FaultRestart        FaultName = "restart"
	FaultBabble         FaultName = "kv_babble"
)

// Scope says where a fault takes effect and for how long.
type Scope string

// The scopes.
const (
	ScopeStanding Scope = "standing" // until it is deleted
	ScopeRequest  Scope = "request"  // on generation requests: the next "requests" of them, or until deleted
	ScopeBatch    Scope = "batch"    // on published batches: the next "batches" of them, or until deleted
	ScopeAction   Scope = "action"   // once, at once
)

// Fault is a fault with its parameters, as the control API takes it. A parameter
// that the fault does not know must be absent.
type Fault struct {
	Name              FaultName `json:"name"`
	Requests          int       `json:"requests,omitempty"`            // 0: until deleted
	Status            int       `json:"status,omitempty"`              // HTTP status
	RetryAfterSeconds int       `json:"retry_after_seconds,omitempty"` // 0: no header
	DelayMillis       int       `json:"delay_ms,omitempty"`
	AfterChunks       int       `json:"after_chunks,omitempty"` // SSE events sent before it happens
	Factor            float64   `json:"factor,omitempty"`
	Model             string    `json:"model,omitempty"`
	ChunkBytes        int       `json:"chunk_bytes,omitempty"`
	LineEnd           string    `json:"line_end,omitempty"` // lf, crlf or cr
	Comments          bool      `json:"comments,omitempty"`
	LengthDelta       int       `json:"length_delta,omitempty"`
	ExitCode          int       `json:"exit_code,omitempty"`

	// Of restart.
	Seq    int64 `json:"seq,omitempty"`     // where events begin
	EndSeq bool  `json:"end_seq,omitempty"` // the old life says goodbye
	Cut    bool  `json:"cut,omitempty"`     // event connections end

	publish.Params // of published events
}

// FaultDoc describes one fault of the set.
type FaultDoc struct {
	Name   FaultName `json:"name"`
	Scope  Scope     `json:"scope"`
	Params []string  `json:"params"`
	Does   string    `json:"does"`
}

// catalogue is the closed set. README.md holds the same table, checked by a test.
var catalogue = append(requestCatalogue, eventCatalogue...)

// requestCatalogue is the part that this package carries out.
var requestCatalogue = []FaultDoc{
	{FaultHealthFail, ScopeStanding, nil, "GET /health answers 503"},
	{FaultReadyFail, ScopeStanding, nil, "GET /ready answers 503"},
	{FaultHangServerInfo, ScopeStanding, []string{"delay_ms"}, "GET /server_info waits delay_ms, or until the client leaves"},
	{FaultModelLie, ScopeStanding, []string{"model"}, "/v1/models and /server_info name another model; requests are judged as before"},
	{FaultStatus, ScopeRequest, []string{"requests", "status", "retry_after_seconds"}, "answers the status with an error object"},
	{FaultReset, ScopeRequest, []string{"requests"}, "resets the connection instead of answering"},
	{FaultDelayHeaders, ScopeRequest, []string{"requests", "delay_ms"}, "waits before anything else, status and reset included"},
	{FaultWrongLength, ScopeRequest, []string{"requests", "length_delta"}, "answers a 400 whose Content-Length is off by length_delta"},
	{FaultStall, ScopeRequest, []string{"requests", "after_chunks", "delay_ms"}, "sends after_chunks events, then waits delay_ms, or until the client leaves"},
	{FaultCut, ScopeRequest, []string{"requests", "after_chunks"}, "sends after_chunks events, or half a plain body, then resets the connection"},
	{FaultStreamError, ScopeRequest, []string{"requests", "after_chunks"}, "sends after_chunks events, then an error event and the end of the body, without [DONE]"},
	{FaultNoDone, ScopeRequest, []string{"requests"}, "ends the stream cleanly without [DONE]"},
	{FaultSplitSSE, ScopeRequest, []string{"requests", "chunk_bytes"}, "sends the stream in writes of chunk_bytes, whatever the events"},
	{FaultSSELines, ScopeRequest, []string{"requests", "line_end", "comments"}, "ends SSE lines with line_end; with comments, a \": ping\" line goes before each event"},
	{FaultSlowTokens, ScopeStanding, []string{"factor"}, "tokens take factor times as long"},
	{FaultClearCache, ScopeAction, nil, "empties the cache of every rank; 409 while a request runs"},
	{FaultCrash, ScopeAction, []string{"delay_ms", "exit_code"}, "ends the process after delay_ms with exit_code, without goodbye"},
	{FaultRestart, ScopeAction, []string{"seq", "end_seq", "cut"}, "restarts in place: answers break off, caches empty, start time new, events from seq on, after END_SEQ with end_seq; with cut event connections end"},
}

func faultNames() string {
	names := make([]string, len(catalogue))
	for i, doc := range catalogue {
		names[i] = string(doc.Name)
	}
	return strings.Join(names, ", ")
}

func (f Fault) doc() (FaultDoc, bool) {
	i := slices.IndexFunc(catalogue, func(d FaultDoc) bool { return d.Name == f.Name })
	if i < 0 {
		return FaultDoc{}, false
	}
	return catalogue[i], true
}

// delay is delay_ms as time; 0 means for ever where the fault says so.
func (f Fault) delay() time.Duration { return time.Duration(f.DelayMillis) * time.Millisecond }

// param is one parameter as set, for validation.
type param struct {
	name     string
	set      bool
	ok       bool
	want     string
	required bool
}

func (f Fault) params() []param {
	return append(f.eventParams(), []param{
		{"requests", f.Requests != 0, f.Requests >= 0 && f.Requests <= maxFaultRequests, fmt.Sprintf("0 (until deleted) to %d", maxFaultRequests), false},
		{"status", f.Status != 0, f.Status >= 400 && f.Status <= 599, "400 to 599", true},
		{"retry_after_seconds", f.RetryAfterSeconds != 0, f.RetryAfterSeconds >= 0 && f.RetryAfterSeconds <= 3600, "0 (no header) to 3600", false},
		{"delay_ms", f.DelayMillis != 0, f.DelayMillis >= 0 && f.delay() <= maxFaultDelay, fmt.Sprintf("0 to %d", maxFaultDelay.Milliseconds()), f.Name == FaultDelayHeaders || f.Name == FaultName(publish.ReplaySlow)},
		{"after_chunks", f.AfterChunks != 0, f.AfterChunks >= 0 && f.AfterChunks <= maxFaultChunks, fmt.Sprintf("0 to %d", maxFaultChunks), false},
		{"factor", f.Factor != 0, f.Factor > 0 && f.Factor <= maxPaceFactor, fmt.Sprintf("above 0, to %d", maxPaceFactor), true},
		{"model", f.Model != "", len(f.Model) <= maxServedName, fmt.Sprintf("1 to %d bytes", maxServedName), true},
		{"chunk_bytes", f.ChunkBytes != 0, f.ChunkBytes > 0 && f.ChunkBytes <= maxFaultChunks, fmt.Sprintf("1 to %d", maxFaultChunks), true},
		{"line_end", f.LineEnd != "", slices.Contains([]string{"lf", "crlf", "cr"}, f.LineEnd), "lf, crlf or cr", true},
		{"comments", f.Comments, true, "", false},
		{"length_delta", f.LengthDelta != 0, f.LengthDelta >= -40 && f.LengthDelta <= maxRecordedBody, fmt.Sprintf("-40 to %d and not 0", maxRecordedBody), true},
		{"exit_code", f.ExitCode != 0, f.ExitCode >= 0 && f.ExitCode <= 255, "0 to 255", false},
	}...)
}

func rangeText(least, most int) string { return fmt.Sprintf("%d to %d", least, most) }

// validate checks a fault from outside against the catalogue.
func (f Fault) validate() *apiError {
	doc, ok := f.doc()
	if !ok {
		return badRequest("name", "unknown fault %q; the faults are: %s", f.Name, faultNames())
	}
	for _, p := range f.params() {
		known := slices.Contains(doc.Params, p.name)
		switch {
		case p.set && !known:
			return badRequest(p.name, "fault %s takes no %s; it takes: %s", f.Name, p.name, strings.Join(doc.Params, ", "))
		case p.set && !p.ok, known && p.required && !p.set:
			return badRequest(p.name, "fault %s: %s must be %s", f.Name, p.name, p.want)
		}
	}
	return nil
}
