package loadgen

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptrace"
	"time"
)

// outcome is how one request ended.
type outcome struct {
	index   int
	began   time.Duration // since the start of the run
	late    time.Duration // behind its time in the trace
	paced   bool
	latency time.Duration // to the last byte
	ttft    time.Duration // to the first event, or the body's first byte
	opened  int           // connections opened for it
	retried int           // times net/http sent it again
	answer  answer
	failure *failure // nil: a complete, correct answer
}

// answer is what an answer said.
type answer struct {
	engine   string // system_fingerprint
	usage    bool   // whether the counts below were told
	prompt   int
	cached   int
	produced int
}

// sender sends requests one at a time over connections of its own.
type sender struct {
	base   string
	client *http.Client
}

func newSender(base string, newConnections bool) *sender {
	return &sender{base: base, client: &http.Client{
		Transport: &http.Transport{
			MaxIdleConnsPerHost: 1,
			DisableKeepAlives:   newConnections,
			DisableCompression:  true,
		},
		// A redirect would hide who answered.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

func (s *sender) close() { s.client.CloseIdleConnections() }

// send sends r and reads its answer to the end.
func (s *sender) send(ctx context.Context, r request) outcome {
	var o outcome
	conns := 0
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(info httptrace.GotConnInfo) {
		conns++
		if !info.Reused {
			o.opened++
		}
	}})
	begin := time.Now()
	o.failure = s.exchange(ctx, r, &o, begin)
	o.latency = time.Since(begin)
	o.retried = max(0, conns-1)
	return o
}

func (s *sender) exchange(ctx context.Context, r request, o *outcome, begin time.Time) *failure {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.base+r.route, bytes.NewReader(r.body))
	if err != nil {
		return failf(codeBadResponse, 0, "build the request: %v", err)
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := s.client.Do(req)
	if err != nil {
		return transportFailure(ctx, 0, err)
	}
	defer func() { _ = res.Body.Close() }() // read to its end, or given up
	if res.StatusCode != http.StatusOK {
		return statusFailure(res)
	}
	body := &io.LimitedReader{R: res.Body, N: maxBodyBytes}
	var broken *failure
	if r.stream {
		broken = readStream(ctx, body, o, begin)
	} else {
		broken = readPlain(ctx, body, o, begin)
	}
	if broken != nil {
		return broken
	}
	return checkCounts(r, o.answer)
}

// chunk is what we read of an answer and of its chunks.
type chunk struct {
	Fingerprint string `json:"system_fingerprint"`
	Choices     []struct {
		FinishReason *string `json:"finish_reason"`
	} `json:"choices"`
	Usage *struct {
		Prompt     int `json:"prompt_tokens"`
		Completion int `json:"completion_tokens"`
		Details    *struct {
			Cached int `json:"cached_tokens"`
		} `json:"prompt_tokens_details"`
	} `json:"usage"`
	Error json.RawMessage `json:"error"`
}

func (a *answer) note(c chunk) {
	if c.Fingerprint != "" {
		a.engine = clip(c.Fingerprint, maxNameBytes)
	}
	if u := c.Usage; u != nil {
		a.usage, a.prompt, a.produced = true, u.Prompt, u.Completion
		if u.Details != nil {
			a.cached = u.Details.Cached
		}
	}
}

// readStream reads events up to [DONE] and the end of the body. A stream that
// ends in any other way is broken, however well it looks.
func readStream(ctx context.Context, body io.Reader, o *outcome, begin time.Time) *failure {
	events := newEventReader(body)
	finished, seen := false, 0
	for {
		data, err := events.next()
		switch {
		case errors.Is(err, io.EOF):
			return failf(codeTruncated, http.StatusOK, "the stream ended after %d events without [DONE]", seen)
		case err != nil:
			f := transportFailure(ctx, http.StatusOK, err)
			f.text = clip(f.text, maxErrorText)
			return f
		}
		if o.ttft == 0 {
			o.ttft = time.Since(begin)
		}
		if bytes.Equal(data, []byte("[DONE]")) {
			break
		}
		seen++
		var c chunk
		if err := json.Unmarshal(data, &c); err != nil {
			return failf(codeBadResponse, http.StatusOK, "event %d is no JSON: %v", seen, err)
		}
		if len(c.Error) > 0 {
			return failf(codeErrorEvent, http.StatusOK, "event %d: %s", seen, c.Error)
		}
		o.answer.note(c)
		for _, choice := range c.Choices {
			finished = finished || choice.FinishReason != nil
		}
	}
	if !finished {
		return failf(codeTruncated, http.StatusOK, "[DONE] came after %d events without a finish_reason", seen)
	}
	// To the end, or the connection cannot be kept.
	if _, err := io.Copy(io.Discard, body); err != nil {
		return transportFailure(ctx, http.StatusOK, err)
	}
	return nil
}

func readPlain(ctx context.Context, body io.Reader, o *outcome, begin time.Time) *failure {
	o.ttft = time.Since(begin)
	data, err := io.ReadAll(body)
	if err != nil {
		return transportFailure(ctx, http.StatusOK, err)
	}
	var c chunk
	if err := json.Unmarshal(data, &c); err != nil {
		return failf(codeBadResponse, http.StatusOK, "the body of %d bytes is no JSON: %v", len(data), err)
	}
	if len(c.Choices) == 0 || c.Choices[0].FinishReason == nil {
		return failf(codeBadResponse, http.StatusOK, "the answer has no choice that finished: %s", data)
	}
	o.answer.note(c)
	return nil
}

// checkCounts compares the usage with what was asked for: a router that changes
// a prompt, or an answer that is short, shows here.
func checkCounts(r request, a answer) *failure {
	switch {
	case !a.usage:
		return nil
	case r.promptTokens > 0 && a.prompt != r.promptTokens:
		return failf(codeMismatch, http.StatusOK, "a prompt of %d tokens was counted as %d", r.promptTokens, a.prompt)
	case r.outputTokens > 0 && a.produced != r.outputTokens:
		return failf(codeMismatch, http.StatusOK, "%d tokens were asked for, %d came", r.outputTokens, a.produced)
	case a.cached < 0 || a.cached > a.prompt:
		return failf(codeMismatch, http.StatusOK, "%d of %d prompt tokens are said to be cached", a.cached, a.prompt)
	}
	return nil
}
