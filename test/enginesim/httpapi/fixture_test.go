package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/routerfleet/routerfleet/test/enginesim"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// pipeListener accepts in-memory connections, so that client, server and engine
// live in one synctest bubble and time is virtual.
type pipeListener struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func newPipeListener() *pipeListener {
	return &pipeListener{conns: make(chan net.Conn), closed: make(chan struct{})}
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case conn := <-l.conns:
		return conn, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

func (l *pipeListener) Addr() net.Addr { return &net.UnixAddr{Name: "pipe", Net: "pipe"} }

func (l *pipeListener) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	client, server := net.Pipe()
	select {
	case l.conns <- server:
		return client, nil
	case <-l.closed:
		return nil, errors.New("the server is closed")
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// fixture is a served engine double and a client of it.
type fixture struct {
	t      *testing.T
	server *Server
	engine *enginesim.Engine
	client *http.Client
	base   string
	exits  chan int
}

// bubble runs test against a double in virtual time.
func bubble(t *testing.T, engine enginesim.Options, options Options, test func(*fixture)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		// Runs last: net/http lingers half a second on connections it refuses.
		t.Cleanup(func() { <-time.After(time.Second) })
		pipe := newPipeListener()
		f := newFixture(t, engine, options, pipe, pipe.dial)
		f.base = "http://engine"
		test(f)
	})
}

// loopback runs test against a double on a real socket: for resets.
func loopback(t *testing.T, engine enginesim.Options, options Options, test func(*fixture)) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f := newFixture(t, engine, options, listener, (&net.Dialer{}).DialContext)
	f.base = "http://" + listener.Addr().String()
	test(f)
}

func newFixture(t *testing.T, engine enginesim.Options, options Options, listener net.Listener, dial func(context.Context, string, string) (net.Conn, error)) *fixture {
	t.Helper()
	f := &fixture{t: t, exits: make(chan int, 1)}
	var err error
	if f.engine, err = enginesim.New(engine); err != nil {
		t.Fatal(err)
	}
	options.Engine = f.engine
	if options.Model == "" {
		options.Model = "demo-model"
	}
	if options.Exit == nil {
		options.Exit = func(code int) { f.exits <- code }
	}
	if f.server, err = New(options); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	server := NewHTTPServer(f.server.Handler(), time.Minute)
	transport := &http.Transport{DialContext: dial, DisableCompression: true}
	f.client = &http.Client{Transport: transport}
	var running sync.WaitGroup
	running.Go(func() { _ = f.engine.Run(ctx) })
	running.Go(func() { _ = server.Serve(listener) })
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		if err := server.Close(); err != nil {
			t.Errorf("close the server: %v", err)
		}
		stop()
		running.Wait()
	})
	return f
}

// answered is a response read whole.
type answered struct {
	status int
	header http.Header
	body   string
	err    error // of reading the body
}

func (f *fixture) do(method, path, body string, headers ...string) answered {
	f.t.Helper()
	res, err := f.send(context.Background(), method, path, body, headers...)
	if err != nil {
		f.t.Fatalf("%s %s: %v", method, path, err)
	}
	return f.read(res)
}

func (f *fixture) read(res *http.Response) answered {
	f.t.Helper()
	data, err := io.ReadAll(res.Body)
	_ = res.Body.Close()
	return answered{res.StatusCode, res.Header, string(data), err}
}

func (f *fixture) send(ctx context.Context, method, path, body string, headers ...string) (*http.Response, error) {
	f.t.Helper()
	req, err := http.NewRequestWithContext(ctx, method, f.base+path, strings.NewReader(body))
	if err != nil {
		f.t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	return f.client.Do(req)
}

func (f *fixture) post(path, body string, headers ...string) answered {
	f.t.Helper()
	return f.do(http.MethodPost, path, body, headers...)
}

// decode reads a 200's JSON.
func decode[T any](t *testing.T, a answered) T {
	t.Helper()
	var v T
	if a.err != nil || a.status != http.StatusOK {
		t.Fatalf("got status %d, error %v, body %s", a.status, a.err, a.body)
	}
	if err := json.Unmarshal([]byte(a.body), &v); err != nil {
		t.Fatalf("decode %s: %v", a.body, err)
	}
	return v
}

func (f *fixture) state() ControlState {
	f.t.Helper()
	return decode[ControlState](f.t, f.do(http.MethodGet, "/control/state", ""))
}

func (f *fixture) fault(body string) {
	f.t.Helper()
	decode[ControlFaults](f.t, f.post("/control/faults", body))
}

func (f *fixture) lastRecord() Record {
	f.t.Helper()
	all := decode[map[string][]Record](f.t, f.do(http.MethodGet, "/control/requests?limit=1", ""))
	if len(all["requests"]) != 1 {
		f.t.Fatalf("no request is recorded")
	}
	return all["requests"][0]
}

// events returns the data of a stream's events.
func events(body string) []string {
	var all []string
	for _, block := range strings.Split(body, "\n\n") {
		if data, ok := strings.CutPrefix(block, "data: "); ok {
			all = append(all, data)
		}
	}
	return all
}

// textCompletion is what tests read of /v1/completions, whole or chunk.
type textCompletion struct {
	Object      string `json:"object"`
	Fingerprint string `json:"system_fingerprint"`
	Choices     []struct {
		Index        int     `json:"index"`
		Text         string  `json:"text"`
		FinishReason *string `json:"finish_reason"`
	} `json:"choices"`
	Usage *usage `json:"usage"`
}

// errorBody is an OpenAI error object.
type errorBody struct {
	Error struct {
		Message string  `json:"message"`
		Type    string  `json:"type"`
		Param   *string `json:"param"`
		Code    int     `json:"code"`
	} `json:"error"`
}
