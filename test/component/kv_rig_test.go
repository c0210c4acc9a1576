package component

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/routerfleet/routerfleet/router/app"
	"github.com/routerfleet/routerfleet/router/bootstrap/status"
	"github.com/routerfleet/routerfleet/router/policy"
	"github.com/routerfleet/routerfleet/test/enginesim"
	"github.com/routerfleet/routerfleet/test/enginesim/httpapi"
	"github.com/routerfleet/routerfleet/test/enginesim/publish"
)

const (
	kvPage   = 8  // tokens of a block
	kvPrompt = 64 // tokens of a prompt
	// kvReusable is what an engine takes from its cache of a prompt it has seen: it computes the last token at least.
	kvReusable = kvPrompt - kvPage
)

// kvHosts counts loopback addresses: engines that advertise nothing share one configured port, so each has a host.
var kvHosts atomic.Int32

// kvHost gives 63,500 addresses to one process, and others to another one that tests beside it.
func kvHost() string {
	n, pid := int(kvHosts.Add(1)), os.Getpid()
	return fmt.Sprintf("127.%d.%d.%d", 1+pid%250, (pid/250+n/250)%254, 1+n%250)
}

// kvKind is a kind of engine that publishes.
type kvKind struct {
	dialect publish.Dialect
	hash    publish.HashScheme
	scheme  string // of the index
}

var kvKinds = []kvKind{
	{dialect: publish.SGLangMap, scheme: "sglang"},
	{dialect: publish.SGLangArray, scheme: "sglang"},
	{dialect: publish.VLLMMap, hash: publish.Opaque, scheme: "tokens"},
	{dialect: publish.VLLMInt, hash: publish.Opaque, scheme: "tokens"},
	{dialect: publish.VLLMArray, hash: publish.SHA256CBOR, scheme: "vllm-sha256-cbor"},
}

func (k kvKind) String() string { return string(k.dialect) + "/" + k.scheme }

// kvEngine is an engine double that publishes over TCP.
type kvEngine struct {
	*httptest.Server
	engine *enginesim.Engine
	events *publish.Server
}

// kvFleet is some of them, and how a router is told of them.
type kvFleet struct {
	t       testing.TB
	kind    kvKind
	port    int
	engines []*kvEngine

	// What follows changes the engines that are started next; nil and zero change nothing.
	model func(i int) string
	hosts []string                                            // theirs, their HTTP on kvHTTPPort
	hears func(i int, own *publish.Server) enginesim.Observer // of what an engine caches
	tells func(i int, o *publish.Options)                     // how it publishes
	front func(i int, engine http.Handler) http.Handler       // its HTTP
	reads func(i int, o *httpapi.Options)                     // how it reads prompts
}

// kvHTTPPort is where engines serve whose host is chosen beforehand: nobody else has the host.
const kvHTTPPort = "18000"

// modelOf is the model that engine i serves.
func (f *kvFleet) modelOf(i int) string {
	if f.model == nil {
		return "m"
	}
	return f.model(i)
}

// newKVFleet starts engines with caches of so many blocks that take no time.
func newKVFleet(t testing.TB, kind kvKind, n, blocks int, change ...func(*kvFleet)) *kvFleet {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f := &kvFleet{t: t, kind: kind, port: l.Addr().(*net.TCPAddr).Port}
	l.Close()
	for _, c := range change {
		c(f)
	}
	for i := range n {
		f.engines = append(f.engines, f.start(i, blocks))
	}
	t.Cleanup(http.DefaultClient.CloseIdleConnections)
	return f
}

func (f *kvFleet) start(i, blocks int) *kvEngine {
	f.t.Helper()
	host, port, seed := kvHost(), "0", fmt.Sprint("engine ", i)
	if i < len(f.hosts) {
		host, port = f.hosts[i], kvHTTPPort
	}
	if f.kind.hash == publish.SHA256CBOR {
		seed = "42"
	}
	o := publish.ServerOptions{Host: host, LoadInterval: time.Hour, Options: publish.Options{
		Dialect: f.kind.dialect, PageSize: kvPage, HashScheme: f.kind.hash,
		Ports: publish.Ports{Events: f.port, Replay: f.port%60000 + 1100},
	}}
	api := httpapi.SGLang
	if f.kind.dialect.IsVLLM() {
		api, o.HashSeed = httpapi.VLLM, seed
	}
	if f.tells != nil {
		f.tells(i, &o.Options)
	}
	e := &kvEngine{}
	var err error
	if e.events, err = publish.NewServer(o); err != nil {
		f.t.Fatal(err)
	}
	if err := e.events.Bind(); err != nil {
		f.t.Fatal(err)
	}
	var observer enginesim.Observer = e.events
	if f.hears != nil {
		observer = f.hears(i, e.events)
	}
	if e.engine, err = enginesim.New(enginesim.Options{Blocks: blocks, PageSize: kvPage, Observer: observer}); err != nil {
		f.t.Fatal(err)
	}
	served := httpapi.Options{Engine: e.engine, Model: f.modelOf(i), Dialect: api, Name: seed, Events: e.events.Publisher()}
	if f.reads != nil {
		f.reads(i, &served)
	}
	server, err := httpapi.New(served)
	if err != nil {
		f.t.Fatal(err)
	}
	listener, err := net.Listen("tcp", net.JoinHostPort(host, port))
	if err != nil {
		f.t.Fatal(err)
	}
	handler := server.Handler()
	if f.front != nil {
		handler = f.front(i, handler)
	}
	e.Server = httptest.NewUnstartedServer(handler)
	e.Listener.Close()
	e.Listener = listener
	e.Start()
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = e.engine.Run(ctx) })           // it ends with ctx and says so
	running.Go(func() { _ = e.events.Run(ctx, e.engine) }) // the same
	f.t.Cleanup(func() { e.Close(); cancel(); running.Wait() })
	return e
}

// held is how many blocks an engine has cached.
func (e *kvEngine) held(t testing.TB) int {
	t.Helper()
	states, err := e.engine.State(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return states[0].Blocks.Cached + states[0].Blocks.Pinned
}

// options are those of a router for the fleet's engines.
func (f *kvFleet) options() app.Options {
	off := 0
	o := app.Options{TokenDir: f.tokens()}
	o.PredictTTLSecs = &off // what is tested is what engines say
	if f.kind.dialect.IsVLLM() {
		o.KVEventsPort, o.KVEventsBlockSize, o.KVEventsReplayPort = f.port, kvPage, f.port%60000+1100
	}
	if f.kind.hash == publish.SHA256CBOR {
		o.KVEventsHashAlgorithm, o.KVEventsHashSeed = "sha256_cbor", "42"
	}
	return o
}

const (
	adminToken = "admin-token-of-the-component-tests"
	viewToken  = "view-token-of-the-component-tests"
)

func (f *kvFleet) tokens() string {
	f.t.Helper()
	dir := f.t.TempDir()
	for name, token := range map[string]string{"peer": "peer-token-of-the-component-tests", "admin": adminToken, "view": viewToken} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(token), 0o600); err != nil {
			f.t.Fatal(err)
		}
	}
	return dir
}

// router starts one that follows all the fleet's engines but so many.
func (f *kvFleet) router(o app.Options, unfollowed int) *kvRouter {
	f.t.Helper()
	var urls []string
	for _, e := range f.engines {
		urls = append(urls, e.URL)
	}
	r := &kvRouter{router: startRouter(f.t, o, urls...), fleet: f}
	eventually(f.t, "the engines' events are followed", func() bool {
		return r.metric(`routerfleet_kv_ranks_flagged{flag="connected"}`) == float64(len(f.engines)-unfollowed)
	})
	return r
}

// kvRouter is a router that follows a fleet's events. Its workers are called a, b, c in the order of the engines.
type kvRouter struct {
	*router
	fleet *kvFleet
}

func workerOf(i int) string { return string(rune('a' + i)) }

// caughtUp waits until the router has exactly what the engines hold.
func (r *kvRouter) caughtUp() {
	r.t.Helper()
	for i, e := range r.fleet.engines {
		series := fmt.Sprintf(`routerfleet_kv_blocks{tier="device",worker=%q}`, workerOf(i))
		eventually(r.t, "the index has what engine "+workerOf(i)+" holds", func() bool { return r.metric(series) == float64(e.held(r.t)) })
	}
}

// heardAll waits until the router has applied every batch of engines that never restarted. Counts of blocks do not tell
// at a full cache, which holds as many before as after.
func (r *kvRouter) heardAll() {
	r.t.Helper()
	for i, e := range r.fleet.engines {
		series := fmt.Sprintf(`routerfleet_kv_batches_total{worker=%q}`, workerOf(i))
		eventually(r.t, "every batch of engine "+workerOf(i)+" is applied", func() bool {
			e.held(r.t) // answered by the rank after it has told of its last step
			return r.metric(series) == float64(e.events.Publisher().NextSeq(0))
		})
	}
}

// wantSum waits until the sum of a series over the fleet's engines has its value. The name may have labels before worker.
func (r *kvRouter) wantSum(name string, want float64) {
	r.t.Helper()
	before := name + "{"
	if strings.Contains(name, "{") {
		before = name + ","
	}
	eventually(r.t, fmt.Sprintf("%s is %v in all", name, want), func() bool {
		sum := 0.0
		for i := range r.fleet.engines {
			sum += r.metric(fmt.Sprintf("%sworker=%q}", before, workerOf(i)))
		}
		return sum == want
	})
}

// kvBody is a completion over a prompt whose tokens follow from its name; suffix makes another one of the same prefix.
func kvBody(name int, suffix ...int) string {
	ids := make([]string, 0, kvPrompt+len(suffix))
	for i := range kvPrompt {
		ids = append(ids, fmt.Sprint(1000*name+i))
	}
	for _, s := range suffix {
		ids = append(ids, fmt.Sprint(s))
	}
	return `{"model":"m","max_tokens":1,"prompt":[` + strings.Join(ids, ",") + `]}`
}

// ask sends a completion and gives how many tokens of its prompt were cached.
func (r *kvRouter) ask(body string) int {
	r.t.Helper()
	got := r.post(context.Background(), completionsPath, body)
	var answer struct {
		Usage struct {
			Details struct {
				Cached *int `json:"cached_tokens"`
			} `json:"prompt_tokens_details"`
		} `json:"usage"`
	}
	if err := json.Unmarshal([]byte(got.body), &answer); err != nil || got.status != 200 || answer.Usage.Details.Cached == nil {
		r.t.Fatalf("got %d %q: %v", got.status, got.body, err)
	}
	return *answer.Usage.Details.Cached
}

// explain gives the decision table of a request.
func (r *kvRouter) explain(body string) policy.Table {
	r.t.Helper()
	status, text := r.explainWith(adminToken, body)
	var table policy.Table
	if err := json.Unmarshal([]byte(text), &table); err != nil || status != 200 {
		r.t.Fatalf("explain: %d %q: %v", status, text, err)
	}
	return table
}

func (r *kvRouter) explainWith(token, body string) (int, string) {
	r.t.Helper()
	req, err := http.NewRequest(http.MethodPost, r.data+completionsPath, strings.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}
	req.Header.Set("X-RouterFleet-Explain", "1")
	req.Header.Set("X-RouterFleet-Token", token)
	return r.do(req)
}

func (r *kvRouter) do(req *http.Request) (int, string) {
	r.t.Helper()
	resp, err := r.client.Do(req)
	if err != nil {
		r.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

// owner is who holds a prompt, by the decision table; empty when nobody does.
func (r *kvRouter) owner(body string) string {
	r.t.Helper()
	chosen := r.explain(body).Candidates[0]
	if chosen.MatchedBlocks == 0 {
		return ""
	}
	return chosen.Worker
}

func (r *kvRouter) bootstrap() status.Status {
	r.t.Helper()
	req, err := http.NewRequest(http.MethodGet, r.admin+"/internal/bootstrap", nil)
	if err != nil {
		r.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+viewToken)
	code, text := r.do(req)
	s, err := status.Decode(strings.NewReader(text))
	if err != nil || code != 200 {
		r.t.Fatalf("/internal/bootstrap: %d %q: %v", code, text, err)
	}
	return s
}
