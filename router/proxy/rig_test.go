package proxy

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/routerfleet/routerfleet/router/policy"
	"github.com/routerfleet/routerfleet/router/workers"
	"github.com/routerfleet/routerfleet/router/workers/workerstest"
)

// memoryNet is a network of net.Pipe connections, so that a router, its engines and its clients run inside one
// synctest bubble and their timeouts take no time.
type memoryNet struct {
	mu    sync.Mutex
	hosts map[string]*memoryListener
}

type memoryListener struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func (l *memoryListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

func (l *memoryListener) Close() error   { l.once.Do(func() { close(l.done) }); return nil }
func (l *memoryListener) Addr() net.Addr { return &net.UnixAddr{Name: "memory"} }

func (n *memoryNet) listen(host string) *memoryListener {
	n.mu.Lock()
	defer n.mu.Unlock()
	l := &memoryListener{conns: make(chan net.Conn), done: make(chan struct{})}
	n.hosts[host] = l
	return l
}

var errRefused = errors.New("connection refused")

func (n *memoryNet) dial(ctx context.Context, _, address string) (net.Conn, error) {
	host, _, _ := strings.Cut(address, ":")
	n.mu.Lock()
	l := n.hosts[host]
	n.mu.Unlock()
	if l == nil {
		return nil, errRefused
	}
	ours, theirs := net.Pipe()
	select {
	case l.conns <- theirs:
		return ours, nil
	case <-l.done:
		return nil, errRefused
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// rig is a router with engines and a client on a memory network.
type rig struct {
	t       *testing.T
	net     *memoryNet
	workers *workers.Fixed
	metrics *prometheus.Registry
	handler *Handler
	client  *http.Client
	closers []func()
}

const model = "m"

// newRig starts a router over the named engines, which are to be served by serve; the others refuse connections.
func newRig(t *testing.T, o Options, engines ...string) *rig {
	t.Helper()
	r := &rig{t: t, net: &memoryNet{hosts: map[string]*memoryListener{}}, metrics: prometheus.NewRegistry()}
	var ws []workerstest.Worker
	for _, e := range engines {
		ws = append(ws, workerstest.Worker{ID: e, URL: "http://" + e + ":8000", Models: []string{model}})
	}
	r.workers = workerstest.RegistryWith(t, workers.Options{Metrics: r.metrics, Models: o.Models}, ws...)
	p, err := policy.New(policy.NameRoundRobin, policy.Options{})
	if err != nil {
		t.Fatal(err)
	}
	transport := NewTransport()
	transport.DialContext = r.net.dial
	o.Workers, o.Policy, o.Transport, o.Registerer = r.workers, p, transport, r.metrics
	if r.handler, err = New(o); err != nil {
		t.Fatal(err)
	}
	r.serve("router", r.handler)
	clientTransport := &http.Transport{DialContext: r.net.dial, DisableCompression: true}
	r.client = &http.Client{Transport: clientTransport}
	r.closers = append(r.closers, clientTransport.CloseIdleConnections, transport.CloseIdleConnections)
	return r
}

// serve runs an HTTP server under a host name until the rig is closed.
func (r *rig) serve(host string, h http.Handler) *http.Server {
	server := &http.Server{Handler: h, ErrorLog: log.New(io.Discard, "", 0)}
	l := r.net.listen(host)
	done := make(chan struct{})
	go func() { defer close(done); _ = server.Serve(l) }()
	r.closers = append(r.closers, func() { _ = server.Close(); <-done })
	return server
}

// engine serves a handler as an engine.
func (r *rig) engine(host string, h http.HandlerFunc) { r.serve(host, h) }

// raw serves connections by hand: speak gets each after its request was read, and the connection ends with it.
func (r *rig) raw(host string, speak func(conn net.Conn, request int)) {
	l := r.net.listen(host)
	var wg sync.WaitGroup
	var accepted sync.WaitGroup
	accepted.Go(func() {
		for n := 1; ; n++ {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() {
				defer conn.Close()
				if readRequest(conn) == nil {
					speak(conn, n)
				}
			})
		}
	})
	r.closers = append(r.closers, func() { l.Close(); accepted.Wait(); wg.Wait() })
}

func readRequest(conn net.Conn) error {
	req, err := http.ReadRequest(bufio.NewReader(conn))
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, req.Body)
	return err
}

func (r *rig) close() {
	r.client.CloseIdleConnections()
	for i := len(r.closers) - 1; i >= 0; i-- {
		r.closers[i]()
	}
}

// reply is an answer as the client saw it. err is what ended the body, nil for a proper end.
type reply struct {
	status int
	header http.Header
	body   string
	err    error
}

func (r *rig) post(path, body string) reply {
	r.t.Helper()
	return r.postContext(context.Background(), path, body)
}

func (r *rig) postContext(ctx context.Context, path, body string) reply {
	r.t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://router"+path, strings.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}
	resp, err := r.client.Do(req)
	if err != nil {
		return reply{err: err}
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	return reply{status: resp.StatusCode, header: resp.Header, body: string(data), err: err}
}

func (p reply) code() Code {
	var body struct{ Error struct{ Code Code } }
	if json.Unmarshal([]byte(p.body), &body) != nil {
		return ""
	}
	return body.Error.Code
}

// wantError checks an answer of the router itself: status, code in header and body.
func (r *rig) wantError(p reply, code Code) {
	r.t.Helper()
	if p.err != nil || p.status != statusOf[code] || p.code() != code || p.header.Get(headerErrorCode) != string(code) {
		r.t.Errorf("got %d %q (header %q, %v), want %d %s", p.status, p.body, p.header.Get(headerErrorCode), p.err, statusOf[code], code)
	}
}

// wantMetric checks one series, written as name{label="value"}; a missing one counts as 0.
func (r *rig) wantMetric(series string, want float64) {
	r.t.Helper()
	if got := gather(r.t, r.metrics)[series]; got != want {
		r.t.Errorf("%s: got %v, want %v", series, got, want)
	}
}

// wantIdle checks that nothing is in flight any more, here and at the workers.
func (r *rig) wantIdle() {
	r.t.Helper()
	if n := r.handler.InFlight(); n != 0 {
		r.t.Errorf("%d requests are in flight", n)
	}
	for _, l := range r.workers.Snapshot().Workers() {
		for _, rank := range l.Worker.Ranks() {
			if load := rank.Load(); load != (workers.Load{}) {
				r.t.Errorf("worker %s still has load %+v", l.Worker.Name(), load)
			}
		}
	}
}

// gather flattens counters and gauges, and the counts of histograms.
func gather(t *testing.T, g prometheus.Gatherer) map[string]float64 {
	t.Helper()
	families, err := g.Gather()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]float64{}
	for _, f := range families {
		for _, m := range f.Metric {
			var labels []string
			for _, l := range m.Label {
				labels = append(labels, l.GetName()+`="`+l.GetValue()+`"`)
			}
			name := f.GetName()
			if len(labels) > 0 {
				name += "{" + strings.Join(labels, ",") + "}"
			}
			switch {
			case m.Counter != nil:
				out[name] = m.Counter.GetValue()
			case m.Gauge != nil:
				out[name] = m.Gauge.GetValue()
			case m.Histogram != nil:
				out[name] = float64(m.Histogram.GetSampleCount())
			}
		}
	}
	return out
}

const (
	chatPath   = "/v1/chat/completions"
	chatBody   = `{"model":"m","messages":[{"role":"user","content":"hello"}]}`
	streamBody = `{"model":"m","stream":true,"messages":[{"role":"user","content":"hello"}]}`
	okAnswer   = `{"id":"c","choices":[{"message":{"content":"hi"}}],"usage":{"prompt_tokens":7,"completion_tokens":1}}`
)

// writeAnswer answers like an engine.
func writeAnswer(w http.ResponseWriter, status int, body string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, body)
}

// writeEvents starts a stream, sends events and leaves it open.
func writeEvents(w http.ResponseWriter, events ...string) {
	w.Header().Set("Content-Type", "text/event-stream")
	for _, e := range events {
		_, _ = io.WriteString(w, "data: "+e+"\n\n")
	}
	_ = http.NewResponseController(w).Flush()
}

// waitFor lets a handler of an engine hang until its caller is gone, for at most d.
func waitFor(r *http.Request, d time.Duration) (gone bool) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-r.Context().Done():
		return true
	case <-timer.C:
		return false
	}
}
