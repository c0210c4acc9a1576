package prober

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	"k8s.io/apimachinery/pkg/types"

	"github.com/routerfleet/routerfleet/controllers/rollout"
	"github.com/routerfleet/routerfleet/internal/signed"
	"github.com/routerfleet/routerfleet/router/bootstrap/status"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var (
	demo = types.NamespacedName{Namespace: "ns", Name: "demo"}
	key  = signed.NewKey([]byte("a token of the fleet"))
)

// router is a fake router behind a fake network: signed answers, faults, a count of reads.
type router struct {
	mu     sync.Mutex
	status status.Status
	fault  error
	code   int
	body   []byte
	delay  time.Duration
	key    signed.Key
	reads  int
}

func (r *router) set(change func(*router)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	change(r)
}

func (r *router) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.reads
}

// network finds routers by address.
type network map[string]*router

func (n network) RoundTrip(req *http.Request) (*http.Response, error) {
	r := n[req.URL.Host]
	if r == nil {
		return nil, errors.New("no route to host")
	}
	r.mu.Lock()
	r.reads++
	fault, code, body, delay, k, s := r.fault, r.code, r.body, r.delay, r.key, r.status
	r.mu.Unlock()
	select {
	case <-time.After(delay):
	case <-req.Context().Done():
		return nil, req.Context().Err()
	}
	if fault != nil {
		return nil, fault
	}
	rec := &recorder{header: http.Header{}}
	signed.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if code != 0 {
			w.Header().Set("Location", "http://elsewhere/")
			w.WriteHeader(code)
		}
		if body == nil {
			body, _ = json.Marshal(s)
		}
		_, _ = w.Write(body)
	}), signed.Options{Keys: func() []signed.Key { return []signed.Key{k} }}).ServeHTTP(rec, serverSide(req))
	return &http.Response{StatusCode: rec.code, Header: rec.header, Body: io.NopCloser(&rec.body), Request: req}, nil
}

// serverSide is how a server sees a client's request.
func serverSide(req *http.Request) *http.Request {
	out := req.Clone(req.Context())
	out.RequestURI, out.Host, out.Body = req.URL.RequestURI(), req.URL.Host, http.NoBody
	return out
}

type recorder struct {
	header http.Header
	code   int
	body   bytes.Buffer
}

func (r *recorder) Header() http.Header { return r.header }
func (r *recorder) WriteHeader(code int) {
	if r.code == 0 {
		r.code = code
	}
}

func (r *recorder) Write(b []byte) (int, error) {
	r.WriteHeader(http.StatusOK)
	return r.body.Write(b)
}

func settledRouter(uid string) *router {
	return &router{key: key, status: status.Status{PodUID: uid, State: status.StateSettled, Verdict: status.VerdictDisabled,
		Workers: status.Workers{Discovered: 2, Usable: 2}}}
}

func target(uid string) Target {
	return Target{Container: rollout.Container{Pod: types.UID(uid), ID: "c1"}, Address: uid + ":9400"}
}

// bench runs a prober in a bubble of fake time and counts how often the owner is woken.
type bench struct {
	*Prober
	mu    sync.Mutex
	wakes int
}

func (b *bench) woken() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := b.wakes
	b.wakes = 0
	return n
}

func run(t *testing.T, n network, f func(*testing.T, *bench)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := &bench{}
		b.Prober = New(Options{Transport: n, Wake: func(types.NamespacedName) {
			b.mu.Lock()
			b.wakes++
			b.mu.Unlock()
		}})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- b.Run(ctx) }()
		f(t, b)
		cancel()
		if err := <-done; err != nil {
			t.Errorf("run ended with %v", err)
		}
	})
}

// pass lets fake time go by.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

func TestAnswersAreKeptByContainer(t *testing.T) {
	n := network{"a:9400": settledRouter("a"), "b:9400": settledRouter("b")}
	run(t, n, func(t *testing.T, b *bench) {
		b.Track(demo, []signed.Key{key}, []Target{target("a"), target("b")})
		pass(time.Second)
		got := b.Answers(demo)
		if len(got) != 2 || got[target("a").Container].Status.Workers.Discovered != 2 {
			t.Fatalf("answers %+v", got)
		}
		restarted := target("a")
		restarted.Container.ID = "c2"
		n["a:9400"].set(func(r *router) { r.fault = errors.New("connection refused") })
		b.Track(demo, []signed.Key{key}, []Target{restarted})
		pass(time.Second)
		got = b.Answers(demo)
		if len(got) != 1 || got[restarted.Container].Status != nil || got[restarted.Container].SilentSince.IsZero() {
			t.Fatalf("a restarted container inherits an answer: %+v", got)
		}
		b.Forget(demo)
		if got := b.Answers(demo); got != nil {
			t.Fatalf("a forgotten fleet has answers: %+v", got)
		}
	})
}

func TestASettledFleetIsReadRarely(t *testing.T) {
	n := network{"a:9400": settledRouter("a"), "b:9400": settledRouter("b")}
	run(t, n, func(t *testing.T, b *bench) {
		b.Track(demo, []signed.Key{key}, []Target{target("a"), target("b")})
		pass(time.Second)
		b.woken()
		scout, other := n["a:9400"].count(), n["b:9400"].count()
		pass(20 * time.Minute)
		scout, other = n["a:9400"].count()-scout, n["b:9400"].count()-other
		if scout < 100 || scout > 150 {
			t.Errorf("the scout was read %d times in 20 min, want about 120", scout)
		}
		if other < 3 || other > 5 {
			t.Errorf("the other was read %d times in 20 min, want about 4", other)
		}
		if n := b.woken(); n != 0 {
			t.Errorf("the owner was woken %d times although nothing changed", n)
		}
	})
}

func TestAnUnsettledRouterIsReadEverySecond(t *testing.T) {
	r := settledRouter("a")
	r.status.State = status.StateStarting
	run(t, network{"a:9400": r}, func(t *testing.T, b *bench) {
		b.Track(demo, []signed.Key{key}, []Target{target("a")})
		pass(10 * time.Second)
		if n := r.count(); n < 8 || n > 13 {
			t.Errorf("%d reads in 10 s", n)
		}
		b.woken()
		r.set(func(r *router) { r.status.State = status.StateSettled })
		pass(2 * time.Second)
		if b.woken() != 1 {
			t.Error("the owner was not woken once when the router settled")
		}
	})
}

func TestWorkersThatComeAreNoticedAtRestByTheWholeFleet(t *testing.T) {
	n := network{"a:9400": settledRouter("a"), "b:9400": settledRouter("b")}
	run(t, n, func(t *testing.T, b *bench) {
		b.Track(demo, []signed.Key{key}, []Target{target("a"), target("b")})
		pass(time.Minute)
		b.woken()
		for _, r := range n {
			r.set(func(r *router) { r.status.Workers = status.Workers{} })
		}
		pass(13 * time.Second)
		for c, a := range b.Answers(demo) {
			if a.Status.Workers.Discovered != 0 {
				t.Errorf("13 s later %s is still said to see %d workers", c.Pod, a.Status.Workers.Discovered)
			}
		}
		if b.woken() != 2 {
			t.Error("the owner was not woken once for each router")
		}
	})
}

func TestAScoutThatIsNoLongerTrackedHasAHeir(t *testing.T) {
	b := settledRouter("b")
	n := network{"a:9400": settledRouter("a"), "b:9400": b}
	run(t, n, func(t *testing.T, p *bench) {
		p.Track(demo, []signed.Key{key}, []Target{target("a"), target("b")})
		pass(time.Minute)
		b.set(func(r *router) { r.status.Workers.Usable = 7 })
		p.Track(demo, []signed.Key{key}, []Target{target("b")})
		pass(time.Second)
		if got := p.Answers(demo)[target("b").Container].Status.Workers.Usable; got != 7 {
			t.Errorf("a second after the scout went, what its heir sees is still %d usable workers, want 7", got)
		}
		b.set(func(r *router) { r.status.Workers.Usable = 8 })
		pass(13 * time.Second)
		if got := p.Answers(demo)[target("b").Container].Status.Workers.Usable; got != 8 {
			t.Errorf("13 s later the heir is still said to see %d usable workers, want 8", got)
		}
	})
}

func TestAScoutThatFallsSilentMakesTheOthersBeRead(t *testing.T) {
	n := network{"a:9400": settledRouter("a"), "b:9400": settledRouter("b")}
	run(t, n, func(t *testing.T, b *bench) {
		b.Track(demo, []signed.Key{key}, []Target{target("a"), target("b")})
		pass(time.Minute)
		b.woken()
		for _, r := range n {
			r.set(func(r *router) { r.fault = errors.New("connection refused") })
		}
		pass(13 * time.Second)
		for c, a := range b.Answers(demo) {
			if a.SilentSince.IsZero() {
				t.Errorf("%s is silent for 13 s and nobody noticed", c.Pod)
			}
		}
		pass(Silence + 3*time.Second)
		if n := b.woken(); n != 2 {
			t.Errorf("the owner was woken %d times, want once for each router", n)
		}
	})
}

func TestAFailedReadErasesNothingAndSilenceIsToldOnce(t *testing.T) {
	r := settledRouter("a")
	run(t, network{"a:9400": r}, func(t *testing.T, b *bench) {
		b.Track(demo, []signed.Key{key}, []Target{target("a")})
		pass(time.Second)
		b.woken()
		r.set(func(r *router) { r.fault = errors.New("connection refused") })
		pass(14 * time.Second)
		a := b.Answers(demo)[target("a").Container]
		if a.Status == nil || a.SilentSince.IsZero() {
			t.Fatalf("answer %+v, want the old status and a time of silence", a)
		}
		pass(10 * time.Minute)
		if n := b.woken(); n != 1 {
			t.Errorf("the owner was woken %d times by one silence", n)
		}
		r.set(func(r *router) { r.fault = nil })
		pass(13 * time.Second)
		if a := b.Answers(demo)[target("a").Container]; !a.SilentSince.IsZero() {
			t.Error("still silent after an answer")
		}
		if n := b.woken(); n != 1 {
			t.Errorf("the owner was woken %d times by the answer", n)
		}
	})
}

func TestAnswersThatCannotBeBelievedAreNone(t *testing.T) {
	for name, change := range map[string]func(*router){
		"another pod's uid":  func(r *router) { r.status.PodUID = "neighbour" },
		"no uid":             func(r *router) { r.status.PodUID = "" },
		"another key":        func(r *router) { r.key = signed.NewKey([]byte("stranger")) },
		"a redirect":         func(r *router) { r.code = http.StatusFound },
		"an error":           func(r *router) { r.code = http.StatusInternalServerError },
		"no JSON":            func(r *router) { r.body = []byte("hello") },
		"an endless body":    func(r *router) { r.body = []byte(`{"error":"` + strings.Repeat("x", status.MaxBytes) + `"}`) },
		"nothing in time":    func(r *router) { r.delay = readTimeout + time.Second },
		"connection refused": func(r *router) { r.fault = errors.New("connection refused") },
	} {
		t.Run(name, func(t *testing.T) {
			r := settledRouter("a")
			change(r)
			run(t, network{"a:9400": r}, func(t *testing.T, b *bench) {
				b.Track(demo, []signed.Key{key}, []Target{target("a")})
				pass(4 * time.Second)
				a := b.Answers(demo)[target("a").Container]
				if a.Status != nil || a.SilentSince.IsZero() {
					t.Errorf("answer %+v, want none and silence", a)
				}
			})
		})
	}
}

func TestARefusedTokenWakesTheOwnerAtMostOnceAMinute(t *testing.T) {
	r := settledRouter("a")
	r.key = signed.NewKey([]byte("rotated"))
	run(t, network{"a:9400": r}, func(t *testing.T, b *bench) {
		b.Track(demo, []signed.Key{key}, []Target{target("a")})
		pass(5*time.Minute + 30*time.Second)
		if n := b.woken(); n < 5 || n > 8 {
			t.Errorf("woken %d times in 5.5 min, want once a minute and for the silence", n)
		}
		b.Track(demo, []signed.Key{r.key}, []Target{target("a")})
		pass(time.Second)
		if a := b.Answers(demo)[target("a").Container]; a.Status == nil {
			t.Error("the new key is not tried at once")
		}
	})
}

func TestNoMoreThan64ReadsAtOnce(t *testing.T) {
	n, targets := network{}, []Target(nil)
	for i := range 200 {
		uid := string(rune('a'+i%26)) + strings.Repeat("x", i/26)
		n[uid+":9400"] = settledRouter(uid)
		n[uid+":9400"].delay = time.Second
		targets = append(targets, target(uid))
	}
	run(t, n, func(t *testing.T, b *bench) {
		b.Track(demo, []signed.Key{key}, targets)
		pass(500 * time.Millisecond)
		reads := 0
		for _, r := range n {
			reads += r.count()
		}
		if reads != maxConcurrent {
			t.Errorf("%d reads under way, want %d", reads, maxConcurrent)
		}
		pass(4 * time.Second)
		if got := len(b.Answers(demo)); got != 200 {
			t.Errorf("%d answers after four rounds, want 200", got)
		}
	})
}

func TestOnlyWhatMattersIsAChange(t *testing.T) {
	base := func() *status.Status {
		return &status.Status{PodUID: "a", Boot: "1", State: status.StateSettled, Verdict: status.VerdictDisabled,
			Problems: []status.Problem{{Code: status.CodePeerRBAC, Count: 1}}}
	}
	for name, c := range map[string]struct {
		change func(*status.Status)
		same   bool
	}{
		"nothing":           {func(*status.Status) {}, true},
		"a problem's words": {func(s *status.Status) { s.Problems[0].Example = "x" }, true},
		"a problem's count": {func(s *status.Status) { s.Problems[0].Count = 9 }, false},
		"no problem":        {func(s *status.Status) { s.Problems = nil }, false},
		"ranks":             {func(s *status.Status) { s.Ranks.Total = 1 }, false},
		"an error's words":  {func(s *status.Status) { s.Error = "x" }, true},
		"another boot":      {func(s *status.Status) { s.Boot = "2" }, false},
		"state":             {func(s *status.Status) { s.State = status.StateStarting }, false},
		"verdict":           {func(s *status.Status) { s.Verdict = status.VerdictWarm }, false},
		"workers":           {func(s *status.Status) { s.Workers.Usable = 1 }, false},
		"another problem":   {func(s *status.Status) { s.Problems[0].Code = status.CodeClockSkew }, false},
	} {
		s := base()
		c.change(s)
		if got := same(base(), s); got != c.same {
			t.Errorf("%s: same %v, want %v", name, got, c.same)
		}
	}
}
