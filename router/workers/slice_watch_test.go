package workers

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/watch"
	discoveryclient "k8s.io/client-go/kubernetes/typed/discovery/v1"
	"k8s.io/client-go/rest"

	"github.com/routerfleet/routerfleet/router/models"
)

// apiServer speaks the list and watch protocol of EndpointSlices in memory, so that the real client-go runs against
// it inside a bubble. Its watch cache can forget (410), its connections can be cut, it can refuse.
type apiServer struct {
	mu      sync.Mutex
	version int
	objects map[string]*discoveryv1.EndpointSlice
	history []event // since oldest
	oldest  int     // a watch from before is 410
	streams map[*stream]labels.Selector
	down    bool // connections fail
	deny    bool // 403
	// listOnly refuses the streaming list, as servers before 1.34 do, so that the reflector falls back to LIST.
	listOnly bool
	// hold, when set, delays the end of the first list until it is closed.
	hold     chan struct{}
	requests []string
	selector []string
}

type event struct {
	version int
	kind    watch.EventType
	object  *discoveryv1.EndpointSlice
}

type stream struct {
	w     *io.PipeWriter
	queue chan event
}

func newAPIServer() *apiServer {
	return &apiServer{version: 100, oldest: 100, objects: map[string]*discoveryv1.EndpointSlice{}, streams: map[*stream]labels.Selector{}}
}

// put creates or updates; drop deletes. Watchers hear of it unless they are cut off.
func (s *apiServer) put(obj *discoveryv1.EndpointSlice) {
	s.mu.Lock()
	defer s.mu.Unlock()
	kind := watch.Added
	if s.objects[obj.Name] != nil {
		kind = watch.Modified
	}
	s.change(kind, obj.DeepCopy())
}

func (s *apiServer) drop(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.change(watch.Deleted, s.objects[name].DeepCopy())
}

func (s *apiServer) change(kind watch.EventType, obj *discoveryv1.EndpointSlice) {
	s.version++
	obj.ResourceVersion = strconv.Itoa(s.version)
	if kind == watch.Deleted {
		delete(s.objects, obj.Name)
	} else {
		s.objects[obj.Name] = obj
	}
	e := event{s.version, kind, obj}
	s.history = append(s.history, e)
	for st, sel := range s.streams {
		if sel.Matches(labels.Set(obj.Labels)) {
			st.queue <- e
		}
	}
}

// cut ends every watch; compact makes their versions too old to resume from.
func (s *apiServer) cut() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for st := range s.streams {
		_ = st.w.CloseWithError(io.ErrUnexpectedEOF)
		delete(s.streams, st)
	}
}

func (s *apiServer) compact() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.history, s.oldest = nil, s.version
}

func (s *apiServer) set(change func(*apiServer)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(s)
}

func (s *apiServer) count(kind string) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.requests {
		if r == kind {
			n++
		}
	}
	return n
}

func status(r *http.Request, code int, reason metav1.StatusReason, message string) *http.Response {
	return reply(r, code, metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: "Failure", Code: int32(code), Reason: reason, Message: message,
	})
}

func reply(r *http.Request, code int, body any) *http.Response {
	raw, err := json.Marshal(body)
	if err != nil {
		panic(err)
	}
	return &http.Response{
		StatusCode: code, Status: http.StatusText(code), Request: r, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(bytes.NewReader(raw)),
	}
}

func (s *apiServer) RoundTrip(r *http.Request) (*http.Response, error) {
	q := r.URL.Query()
	kind := "list"
	if q.Get("watch") != "" {
		kind = "watch"
	}
	s.mu.Lock()
	s.requests = append(s.requests, kind)
	s.selector = append(s.selector, r.URL.Path+" "+q.Get("labelSelector"))
	down, deny, hold := s.down, s.deny, s.hold
	s.mu.Unlock()
	switch {
	case down:
		return nil, fmt.Errorf("dial tcp 10.96.0.1:443: connect: connection refused")
	case deny:
		return status(r, 403, metav1.StatusReasonForbidden, "endpointslices is forbidden"), nil
	}
	sel, err := labels.Parse(q.Get("labelSelector"))
	if err != nil {
		return status(r, 400, metav1.StatusReasonBadRequest, err.Error()), nil
	}
	if kind == "list" {
		if hold != nil {
			<-hold
		}
		return s.list(r, sel), nil
	}
	return s.watch(r, sel, q.Get("sendInitialEvents") == "true", q.Get("resourceVersion")), nil
}

func (s *apiServer) list(r *http.Request, sel labels.Selector) *http.Response {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := discoveryv1.EndpointSliceList{
		TypeMeta: metav1.TypeMeta{Kind: "EndpointSliceList", APIVersion: "discovery.k8s.io/v1"},
		ListMeta: metav1.ListMeta{ResourceVersion: strconv.Itoa(s.version)},
	}
	for _, name := range slices.Sorted(maps.Keys(s.objects)) {
		if o := s.objects[name]; sel.Matches(labels.Set(o.Labels)) {
			list.Items = append(list.Items, *o)
		}
	}
	return reply(r, 200, list)
}

func (s *apiServer) watch(r *http.Request, sel labels.Selector, initial bool, from string) *http.Response {
	s.mu.Lock()
	defer s.mu.Unlock()
	if initial && s.listOnly {
		return status(r, 422, metav1.StatusReasonInvalid, "sendInitialEvents is forbidden for watch")
	}
	version, _ := strconv.Atoi(from)
	if !initial && version < s.oldest {
		return status(r, 410, metav1.StatusReasonExpired, "too old resource version")
	}
	pr, pw := io.Pipe()
	st := &stream{w: pw, queue: make(chan event, 64)}
	if initial {
		for _, name := range slices.Sorted(maps.Keys(s.objects)) {
			if o := s.objects[name]; sel.Matches(labels.Set(o.Labels)) {
				st.queue <- event{s.version, watch.Added, o}
			}
		}
		st.queue <- event{s.version, watch.Bookmark, &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{
			ResourceVersion: strconv.Itoa(s.version), Annotations: map[string]string{metav1.InitialEventsAnnotationKey: "true"},
		}}}
	} else {
		for _, e := range s.history {
			if e.version > version && sel.Matches(labels.Set(e.object.Labels)) {
				st.queue <- e
			}
		}
	}
	s.streams[st] = sel
	go st.serve(r.Context(), s.hold)
	resp := reply(r, 200, nil)
	resp.Body = pr
	return resp
}

// serve writes events until the stream is cut or the client leaves; the bookmark that ends an initial list waits
// for hold.
func (st *stream) serve(ctx context.Context, hold chan struct{}) {
	for {
		select {
		case <-ctx.Done():
			_ = st.w.CloseWithError(ctx.Err())
			return
		case e := <-st.queue:
			if e.kind == watch.Bookmark && hold != nil {
				<-hold
			}
			e.object.TypeMeta = metav1.TypeMeta{Kind: "EndpointSlice", APIVersion: "discovery.k8s.io/v1"}
			raw, err := json.Marshal(map[string]any{"type": e.kind, "object": e.object})
			if err != nil {
				panic(err)
			}
			if _, err := st.w.Write(append(raw, '\n')); err != nil {
				return
			}
		}
	}
}

// cluster is an API server, its engines and a registry that follows both.
type cluster struct {
	*apiServer
	net *engines
	reg *prometheus.Registry
	log *bytes.Buffer
	*Registry
}

func (c *cluster) pool(t *testing.T, when, want string) {
	t.Helper()
	synctest.Wait()
	if got := poolIDs(c.Registry, "demo-model"); got != want {
		t.Fatalf("%s: pool %q, want %q", when, got, want)
	}
}

// inCluster runs the test against a server with and without the streaming list.
func inCluster(t *testing.T, before func(*apiServer), test func(*testing.T, *cluster)) {
	t.Helper()
	inClusterWith(t, nil, before, test)
}

// inClusterWith is inCluster with a models file.
func inClusterWith(t *testing.T, set *models.Set, before func(*apiServer), test func(*testing.T, *cluster)) {
	t.Helper()
	for _, listOnly := range []bool{false, true} {
		t.Run(fmt.Sprintf("listOnly=%v", listOnly), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				api := newAPIServer()
				api.listOnly = listOnly
				if before != nil {
					before(api)
				}
				net := &engines{}
				for i := range 10 {
					net.set(fmt.Sprintf("10.0.0.%d:8000", i), routes(map[string]string{"/v1/models": oneModel}))
				}
				client, err := discoveryclient.NewForConfig(&rest.Config{Host: "http://api", Transport: api, QPS: -1})
				if err != nil {
					t.Fatal(err)
				}
				c := &cluster{apiServer: api, net: net, reg: prometheus.NewRegistry(), log: &bytes.Buffer{}}
				var stop func()
				c.Registry, stop = start(t, Options{
					Slices:    &SliceSource{Client: client, Namespace: "ns", Selector: "app in (engine),!canary"},
					Models:    set,
					Transport: net, Metrics: c.reg, Log: slog.New(slog.NewTextHandler(c.log, nil)),
				})
				defer func() { api.cut(); stop() }()
				test(t, c)
			})
		})
	}
}

func twoPods(s *apiServer) { s.put(ipv4("engine-1", pod("a", "10.0.0.1"), pod("b", "10.0.0.2"))) }

// Case 1 (production-stack#1091), with the watch resumed where it was: the change is in the history.
func TestADeleteDuringABrokenWatchIsFoundOnResume(t *testing.T) {
	inCluster(t, twoPods, func(t *testing.T, c *cluster) {
		c.pool(t, "at first", "ns/a/0 ns/b/0")
		c.set(func(s *apiServer) { s.down = true })
		c.cut()
		c.put(ipv4("engine-1", pod("a", "10.0.0.1")))
		after(10 * time.Minute)
		c.pool(t, "while the API server is away", "ns/a/0 ns/b/0")
		c.set(func(s *apiServer) { s.down = false })
		after(15 * time.Second) // the longest wait between two attempts
		c.pool(t, "afterwards", "ns/a/0")
	})
}

// Case 1 with the DELETED event lost for good: the server has compacted, the resume is a 410, and only a fresh list
// can tell. The whole slice is gone, so nothing but its absence speaks.
func TestADeleteLostInAWatchReconnectIsFoundByTheRelist(t *testing.T) {
	two := func(s *apiServer) {
		s.put(ipv4("engine-1", pod("a", "10.0.0.1")))
		s.put(ipv4("engine-2", pod("b", "10.0.0.2")))
	}
	inCluster(t, two, func(t *testing.T, c *cluster) {
		c.pool(t, "at first", "ns/a/0 ns/b/0")
		c.set(func(s *apiServer) { s.down = true })
		c.cut()
		c.drop("engine-2")
		c.compact()
		c.set(func(s *apiServer) { s.down = false })
		after(time.Minute)
		c.pool(t, "after the relist", "ns/a/0")
		if got := c.Snapshot().Counts(); got.Discovered != 1 {
			t.Fatalf("counts %+v", got)
		}
		if got := scrape(t, c.reg); !strings.Contains(got, "routerfleet_discovery_lists_total 2\n") {
			t.Fatalf("not one relist:\n%s", got)
		}
		after(DefaultForgetAfter)
		if got := scrape(t, c.reg); strings.Contains(got, `worker="ns/p-b"`) || !strings.Contains(got, `worker="ns/p-a"`) {
			t.Fatalf("series\n%s", got)
		}
	})
}

func TestAnEmptyRelistWithdrawsAndForgetsNothingForAMinute(t *testing.T) {
	inCluster(t, twoPods, func(t *testing.T, c *cluster) {
		c.pool(t, "at first", "ns/a/0 ns/b/0")
		rank, _ := c.Snapshot().Pool("demo-model")
		lease, _ := rank[0].Acquire(10)
		c.drop("engine-1")
		c.compact()
		c.cut()
		after(50 * time.Second)
		c.pool(t, "empty", "")
		twoPods(c.apiServer)
		c.pool(t, "back", "ns/a/0 ns/b/0")
		back, _ := c.Snapshot().Pool("demo-model")
		if back[0].Load().Active != 1 {
			t.Fatal("the counters were lost")
		}
		lease.Done(Success)
	})
}

func TestNothingIsPublishedBeforeTheFirstListIsComplete(t *testing.T) {
	hold := make(chan struct{})
	var once sync.Once
	inCluster(t, func(s *apiServer) {
		hold, once = make(chan struct{}), sync.Once{}
		s.hold = hold
		s.put(ipv4("engine-1", pod("a", "10.0.0.1")))
		s.put(ipv4("engine-2", pod("b", "10.0.0.2")))
	}, func(t *testing.T, c *cluster) {
		release := func() { once.Do(func() { close(hold) }) }
		defer release()
		after(time.Second)
		if s := c.Snapshot(); s.Synced() || len(s.Workers()) != 0 {
			t.Fatalf("synced %v with %d workers in the middle of a list", s.Synced(), len(s.Workers()))
		}
		release()
		after(0)
		if !c.Snapshot().Synced() {
			t.Fatal("not synced after it")
		}
		c.pool(t, "after the list", "ns/a/0 ns/b/0")
	})
}

func TestAForbiddenWatchKeepsTheWorkersBacksOffAndIsSaidOnce(t *testing.T) {
	inCluster(t, twoPods, func(t *testing.T, c *cluster) {
		c.pool(t, "at first", "ns/a/0 ns/b/0")
		c.set(func(s *apiServer) { s.deny = true })
		c.compact()
		c.cut()
		before := c.count("list") + c.count("watch")
		after(10 * time.Minute)
		c.pool(t, "while forbidden", "ns/a/0 ns/b/0")
		if n := c.count("list") + c.count("watch") - before; n < 30 || n > 250 {
			t.Errorf("%d requests in ten minutes of 403", n)
		}
		if n := strings.Count(c.log.String(), "discovery failed"); n == 0 || n > 4 { // per verb, on change
			t.Errorf("said %d times:\n%s", n, c.log.String())
		}
		if got := scrape(t, c.reg); !strings.Contains(got, `routerfleet_discovery_errors_total{code="403"`) {
			t.Errorf("not counted:\n%s", got)
		}
		c.set(func(s *apiServer) { s.deny = false })
		c.put(ipv4("engine-1", pod("b", "10.0.0.2")))
		after(time.Minute)
		c.pool(t, "allowed again", "ns/b/0")
		if !strings.Contains(c.log.String(), "discovery recovered") {
			t.Error("the recovery was not said")
		}
	})
}

// Cases 2 and 3 from the wire to the pool, on the event and without any time passing.
func TestChangesOfASliceAreFollowedAtOnce(t *testing.T) {
	inCluster(t, twoPods, func(t *testing.T, c *cluster) {
		a, b := pod("a", "10.0.0.1"), pod("b", "10.0.0.2")
		c.pool(t, "at first", "ns/a/0 ns/b/0")
		begin := time.Now()
		c.put(ipv4("engine-1", a, terminating(b)))
		c.pool(t, "b is terminating", "ns/a/0")
		c.put(ipv4("engine-1", unready(a), terminating(b)))
		c.pool(t, "a is unready", "ns/b/0")
		c.put(ipv4("engine-1", a, b, pod("c", "10.0.0.3")))
		c.pool(t, "all are back and c is new", "ns/a/0 ns/b/0 ns/c/0")
		relabelled := ipv4("engine-1", a, b, pod("c", "10.0.0.3"))
		relabelled.Labels["canary"] = "yes"
		c.drop("engine-1") // what a watch with a selector sees of it
		c.pool(t, "the Service was relabelled", "")
		c.put(relabelled)
		c.pool(t, "it no longer matches", "")
		if got := scrape(t, c.reg); strings.Contains(got, `routerfleet_discovery_endpoints_skipped`) {
			t.Fatalf("skipped\n%s", got)
		}
		names := slice("engine-names", discoveryv1.AddressTypeFQDN, pod("n", "engine.example"))
		c.put(names)
		c.pool(t, "a name is no worker", "")
		if got := scrape(t, c.reg); !strings.Contains(got, `routerfleet_discovery_endpoints_skipped{reason="fqdn"} 1`) {
			t.Fatalf("not counted\n%s", got)
		}
		c.put(slice("engine-6", discoveryv1.AddressTypeIPv6, pod("d", "fd00::4")))
		c.pool(t, "an engine that does not answer is not routed to", "")
		c.put(ipv4("engine-4", pod("d", "10.0.0.4")))
		if took := time.Since(begin); took != 0 {
			t.Fatalf("following took %v", took)
		}
		after(10 * time.Second)
		c.pool(t, "d answers at its other address", "ns/d/0")
		for _, s := range c.selector {
			if s != "/apis/discovery.k8s.io/v1/namespaces/ns/endpointslices app in (engine),!canary" {
				t.Fatalf("asked for %s", s)
			}
		}
	})
}

func TestTheStreamingListIsUsedWhereThereIsOne(t *testing.T) {
	inCluster(t, twoPods, func(t *testing.T, c *cluster) {
		c.pool(t, "at first", "ns/a/0 ns/b/0")
		if lists := c.count("list"); (lists > 0) != c.listOnly {
			t.Fatalf("listOnly %v: %d lists", c.listOnly, lists)
		}
	})
}

// bareWatch is a slice watch without a reflector.
func bareWatch(t *testing.T) *sliceWatch {
	t.Helper()
	m, err := newMetrics(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	w, err := newSliceWatch(Options{Slices: &SliceSource{}, Log: slog.New(slog.DiscardHandler)}, m)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// Today's reflector never adds before it has replaced; the promise must not hang on that.
func TestSlicesBeforeTheFirstCompleteListWakeNobody(t *testing.T) {
	w := bareWatch(t)
	signalled := func() bool {
		select {
		case <-w.changes():
			return true
		default:
			return false
		}
	}
	if err := w.Add(ipv4("s1", pod("a", "10.0.0.1"))); err != nil || signalled() {
		t.Fatalf("a slice alone woke the writer, or %v", err)
	}
	if err := w.Replace([]any{ipv4("s2", pod("b", "10.0.0.2"))}, "1"); err != nil || !signalled() {
		t.Fatalf("the complete list did not, or %v", err)
	}
	expect(t, w.latest().set, "ns/b http://10.0.0.2:8000 ready")
}

func TestAnObjectOfAnotherKindIsAnErrorAndNoPanic(t *testing.T) {
	w := bareWatch(t)
	for name, f := range map[string]func(any) error{
		"add": w.Add, "update": w.Update, "delete": w.Delete, "replace": func(o any) error { return w.Replace([]any{o}, "1") },
	} {
		if err := f("a string"); err == nil {
			t.Errorf("%s took a string", name)
		}
	}
}
