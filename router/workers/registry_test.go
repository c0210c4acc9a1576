package workers

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"
	"go.uber.org/goleak"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
)

func TestMain(m *testing.M) {
	// The second handler sleeps when errors come faster than one a millisecond, by a global clock reading that the
	// next bubble, which starts in 2000 again, would wait years for.
	utilruntime.ErrorHandlers = utilruntime.ErrorHandlers[:1]
	goleak.VerifyTestMain(m)
}

// start runs the registry in the present bubble and returns what stops it.
func start(t *testing.T, o Options) (*Registry, func()) {
	t.Helper()
	r, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- r.Run(ctx) }()
	synctest.Wait()
	return r, func() {
		t.Helper()
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run ended with %v", err)
		}
	}
}

func after(d time.Duration) { time.Sleep(d); synctest.Wait() } // in a bubble: fake time

func poolIDs(r *Registry, model string) string {
	pool, known := r.Snapshot().Pool(model)
	if !known {
		return "unknown"
	}
	return ids(pool)
}

func scrape(t *testing.T, reg prometheus.Gatherer) string {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	for _, f := range families {
		if _, err := expfmt.MetricFamilyToText(&out, f); err != nil {
			t.Fatal(err)
		}
	}
	return out.String()
}

func TestARegistryOfStaticWorkersFollowsThem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net := &engines{}
		up := routes(map[string]string{"/server_info": sglangInfo, "/v1/models": oneModel, "/health": "200"})
		net.set("a:8000", up)
		var log bytes.Buffer
		reg := prometheus.NewRegistry()
		r, stop := start(t, Options{
			Static: static(t, "a=http://a:8000", "b=http://b:8000"), Transport: net, Metrics: reg,
			Log: slog.New(slog.NewTextHandler(&log, nil)),
		})
		defer stop()
		if got := poolIDs(r, "demo-model"); got != "a/0 a/1" {
			t.Fatalf("pool %q", got)
		}
		if c := r.Snapshot().Counts(); c != (Counts{Discovered: 2, InRotation: 1, Withdrawn: 1}) {
			t.Fatalf("counts %+v", c)
		}
		changed := r.Changed()
		net.set("b:8000", up)
		after(unhealthyProbeInterval)
		select {
		case <-changed:
		default:
			t.Fatal("no new snapshot was announced")
		}
		if got := poolIDs(r, "demo-model"); got != "a/0 a/1 b/0 b/1" {
			t.Fatalf("pool %q", got)
		}
		net.set("a:8000", hang)
		after(DefaultProbeInterval + probesToFail*(probeTimeout+unhealthyProbeInterval))
		if got := poolIDs(r, "demo-model"); got != "b/0 b/1" {
			t.Fatalf("pool %q", got)
		}
		lines := strings.Count(log.String(), "worker changed")
		after(10 * time.Minute)
		if got := strings.Count(log.String(), "worker changed"); got != lines {
			t.Fatalf("%d lines about nothing", got-lines)
		}
		if got := scrape(t, reg); !strings.Contains(got, `routerfleet_worker_introspections_total{result="ok"} 2`) ||
			!strings.Contains(got, `routerfleet_worker_transitions_total{to="in_rotation"} 2`) {
			t.Fatalf("metrics\n%s", got)
		}
		if strings.Contains(log.String(), "a:8000") {
			t.Fatalf("the log names an address:\n%s", log.String())
		}
	})
}

func TestRunEndsInTheMiddleOfEveryQuestion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net := &engines{}
		args := []string{}
		for i := range 3 * maxQuestions { // more than may be under way
			host := fmt.Sprintf("w%d:1", i)
			net.set(host, hang)
			args = append(args, fmt.Sprintf("w%d=http://%s", i, host))
		}
		r, stop := start(t, Options{Static: static(t, args...), Transport: net})
		if got := len(net.seen()); got != maxQuestions {
			t.Fatalf("%d questions at one time, want %d", got, maxQuestions)
		}
		before := time.Now()
		stop()
		if took := time.Since(before); took != 0 {
			t.Fatalf("stopping took %v", took)
		}
		if r.Snapshot() == nil {
			t.Fatal("no snapshot after the end")
		}
	})
}

func TestTheSeriesOfAWorkerEndWithIt(t *testing.T) {
	now := t0
	reg := prometheus.NewRegistry()
	f := fixed(t, Options{BreakerThreshold: 1, Metrics: reg, Now: func() time.Time { return now }},
		FixedWorker{ID: "a", Models: []string{"m"}, DPSize: 2}, FixedWorker{ID: "b"})
	pool, _ := f.Snapshot().Pool("m")
	first, _ := pool[0].Acquire(1)
	second, _ := pool[1].Acquire(1)
	third, _ := pool[1].Acquire(1)
	third.Done(Success)
	expectAll := func(when string, want ...string) {
		t.Helper()
		got := scrape(t, reg)
		for _, line := range want {
			if !strings.Contains(got, line+"\n") {
				t.Errorf("%s: %s is missing in\n%s", when, line, got)
			}
		}
	}
	expectAll("serving",
		`routerfleet_worker_inflight_requests{worker="a"} 2`, `routerfleet_worker_inflight_requests{worker="b"} 0`,
		`routerfleet_worker_requests_total{outcome="success",worker="a"} 1`,
		`routerfleet_worker_breaker_state{worker="a"} 0`, `routerfleet_workers{state="in_rotation"} 1`,
		`routerfleet_workers{state="unintrospected"} 1`, `routerfleet_discovery_synced 1`)
	first.Done(Failure)
	expectAll("tripped", `routerfleet_worker_breaker_state{worker="a"} 2`,
		`routerfleet_worker_requests_total{outcome="error",worker="a"} 1`)
	f.Set()
	expectAll("absent", `routerfleet_worker_breaker_state{worker="a"} 2`, `routerfleet_workers{state="absent"} 2`)
	now = now.Add(DefaultForgetAfter)
	f.Set()
	second.Done(Success) // a stream that outlives its worker must not bring the series back
	if got := scrape(t, reg); strings.Contains(got, `worker="`) {
		t.Errorf("series of a forgotten worker:\n%s", got)
	}
	if _, err := NewFixed(Options{Metrics: reg}); err == nil {
		t.Error("two registries share one set of metrics")
	}
}

// A reader sees a whole snapshot or another whole one: every worker's models equal what its id says.
func TestReadersNeverSeeATornSnapshot(t *testing.T) {
	f := fixed(t, Options{})
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				s := f.Snapshot()
				pool, _ := s.Pool("m")
				for i, r := range pool {
					w := r.Worker()
					if want := fmt.Sprintf("w%d", w.DPSize()); string(w.ID()) != want || (i > 0 && pool[i-1].Worker().ID() > w.ID()) {
						t.Errorf("worker %s has %d ranks", w.ID(), w.DPSize())
						return
					}
					if l, ok := r.Acquire(10); ok {
						l.FirstByte()
						l.Done(Success)
					}
				}
				if s.Counts().InRotation*1 > s.Counts().Discovered {
					t.Error("counts of two states")
				}
			}
		})
	}
	r := rand.New(rand.NewPCG(1, 2))
	for range 500 {
		var ws []FixedWorker
		for n := 1; n <= 9; n++ { // the number of ranks is derivable from the id
			if r.IntN(3) > 0 {
				ws = append(ws, FixedWorker{ID: ID(fmt.Sprintf("w%d", n)), DPSize: n, Models: []string{"m"}, NotReady: r.IntN(4) == 0})
			}
		}
		for i := range ws {
			ws[i].URL = static(t, "http://"+string(ws[i].ID))[0].URL
		}
		f.Set(ws...)
	}
	close(stop)
	wg.Wait()
}
