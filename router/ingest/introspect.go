package ingest

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/routerfleet/routerfleet/router/kvevents"
)

const (
	// introspectTimeout bounds one question, from the wire description.
	introspectTimeout = 2 * time.Second
	// maxInfoBytes bounds /server_info; SGLang's has some 20 kB.
	maxInfoBytes = 4 << 20
	// maxMetricsBytes bounds what is read of /metrics to find one line; engines answer some 100 kB.
	maxMetricsBytes = 8 << 20
	// maxMetricLine bounds one line of it.
	maxMetricLine = 64 << 10
	// maxStartBytes bounds a start.
	maxStartBytes = 64
	// processStart is the metric every standard client library exports for its process.
	processStart = "process_start_time_seconds "
)

// HTTPIntrospector asks engines over HTTP: /server_info for event settings and start time, /metrics for the start time of
// the process if that has none.
type HTTPIntrospector struct{ client *http.Client }

// NewHTTPIntrospector gives an introspector; nil is a transport of its own.
func NewHTTPIntrospector(transport http.RoundTripper) *HTTPIntrospector {
	if transport == nil {
		transport = &http.Transport{MaxIdleConnsPerHost: 1, IdleConnTimeout: 30 * time.Second, DisableCompression: true}
	}
	return &HTTPIntrospector{&http.Client{
		Transport: transport, Timeout: introspectTimeout,
		// A redirect would let an engine name any host the router can reach.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

var _ Introspector = (*HTTPIntrospector)(nil)

// Introspect asks one engine. One that has no /server_info advertises nothing.
func (h *HTTPIntrospector) Introspect(ctx context.Context, e Engine) (Facts, error) {
	var f Facts
	body, err := h.serverInfo(ctx, e)
	if err != nil {
		return f, err
	}
	if body != nil {
		if f.Info, err = kvevents.DecodeServerInfo(body); err != nil {
			f.Problem = err.Error()
		}
		f.Start = startTime(body)
	}
	if !f.Start.Known && (f.Info.Events != nil || e.Configured.Port != 0) { // nobody asks for the start of one without events
		f.Start = h.processStart(ctx, e)
	}
	if f.Start.Known && f.Start.ID == "" && e.Container != "" {
		f.Start.ID = "container:" + e.Container
	}
	return f, nil
}

func (h *HTTPIntrospector) serverInfo(ctx context.Context, e Engine) ([]byte, error) {
	resp, err := h.get(ctx, e, "/server_info")
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	switch {
	case resp.StatusCode == http.StatusNotFound || resp.StatusCode == http.StatusMethodNotAllowed:
		return nil, nil
	case resp.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("/server_info answered %d", resp.StatusCode)
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxInfoBytes+1))
	if err != nil {
		return nil, fmt.Errorf("read /server_info: %w", err)
	}
	if len(body) > maxInfoBytes {
		return nil, fmt.Errorf("/server_info is larger than %d bytes", maxInfoBytes)
	}
	return body, nil
}

// startTime reads start_time of /server_info, a number or a text. Absent is unknown: the metrics are asked.
func startTime(body []byte) Start {
	var doc struct {
		StartTime json.RawMessage `json:"start_time"`
	}
	if json.Unmarshal(body, &doc) != nil {
		return Start{}
	}
	text := strings.Trim(string(doc.StartTime), `"`)
	if text == "" || text == "null" || text == "0" || len(text) > maxStartBytes {
		return Start{}
	}
	return Start{Known: true, ID: "start:" + text}
}

// processStart finds the start of the process among an engine's metrics. An engine without metrics, or without that one,
// has none; one that does not answer is unknown.
func (h *HTTPIntrospector) processStart(ctx context.Context, e Engine) Start {
	resp, err := h.get(ctx, e, "/metrics")
	if err != nil {
		return Start{}
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return Start{Known: resp.StatusCode < 500 && resp.StatusCode != http.StatusTooManyRequests}
	}
	lines := bufio.NewScanner(io.LimitReader(resp.Body, maxMetricsBytes))
	lines.Buffer(nil, maxMetricLine)
	for lines.Scan() {
		if value, ok := bytes.CutPrefix(lines.Bytes(), []byte(processStart)); ok && len(value) <= maxStartBytes {
			return Start{Known: true, ID: "process:" + string(bytes.TrimSpace(value))}
		}
	}
	return Start{Known: lines.Err() == nil}
}

func (h *HTTPIntrospector) get(ctx context.Context, e Engine, path string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(e.URL, "/")+path, nil)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if e.APIKey != nil {
		if key := e.APIKey(); key != "" {
			req.Header.Set("Authorization", "Bearer "+key)
		}
	}
	resp, err := h.client.Do(req)
	if err != nil {
		var outer *url.Error
		if errors.As(err, &outer) { // its text repeats the URL
			err = outer.Err
		}
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return resp, nil
}
