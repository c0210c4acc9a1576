package workers

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func (s *story) refuse(id ID, err error) {
	s.t.Helper()
	s.step(introspected{id: id, epoch: s.m.entries[id].askEpoch, err: err})
}

func (s *story) complaints() (out []string) {
	for _, e := range s.last {
		if c, ok := e.(complained); ok {
			out = append(out, c.name+": "+c.why)
		}
	}
	return out
}

func TestAComplaintIsToldOnceUntilTheWorkerIsFine(t *testing.T) {
	s := newStory(t, Options{})
	s.list(at("a", "10.0.0.1:8000"))
	for i, c := range []struct {
		err  error // nil: it lists no models
		told bool
	}{
		{errors.New("connection refused"), true},
		{errors.New("connection refused"), false},
		{errors.New("/v1/models answered 401"), true},
		{errors.New("connection refused"), false}, // it goes to and fro
		{nil, true},
		{nil, false},
	} {
		s.refuse("a", c.err)
		if got := s.complaints(); (len(got) == 1) != c.told {
			t.Errorf("answer %d: told %q, want %v", i, got, c.told)
		}
		if l := s.snap.workers[0]; !l.Failed || l.State != StateUnintrospected || (c.err != nil && !strings.Contains(l.Reason, c.err.Error())) {
			t.Errorf("answer %d: listed %+v", i, l)
		}
		s.wait(DefaultRetryInterval)
	}
	s.answer("a", 0, "m")
	s.state("a", StateInRotation)
	if l := s.snap.workers[0]; l.Failed || l.Reason != "" {
		t.Errorf("listed %+v", l)
	}
	s.list(at("a", "10.0.0.1:8000").but(conditionNotReady))
	s.list(at("a", "10.0.0.1:8000"))
	s.refuse("a", errors.New("connection refused"))
	if got := s.complaints(); len(got) != 1 {
		t.Errorf("after it was fine: told %q", got)
	}
	s.state("a", StateInRotation) // what it served before still counts, and yet it is told
}

func TestAnEngineThatFailsDifferentlyEachTimeDoesNotFillTheLog(t *testing.T) {
	s := newStory(t, Options{})
	s.list(at("a", "10.0.0.1:8000"))
	told := 0
	for i := range 100 {
		s.refuse("a", fmt.Errorf("line %d\n%s", i, strings.Repeat("é", maxReasonBytes)))
		told += len(s.complaints())
		reason := s.snap.workers[0].Reason
		if len(reason) > maxReasonBytes+60 || strings.Contains(reason, "\n") || !strings.Contains(reason, fmt.Sprintf("line %d;", i)) {
			t.Fatalf("reason %q", reason)
		}
		s.wait(DefaultRetryInterval)
	}
	if told != maxTold {
		t.Errorf("told %d times, want %d", told, maxTold)
	}
}

func TestATransitionTellsItsComplaintByItself(t *testing.T) {
	s := newStory(t, Options{Static: static(t, "a=http://a:8000")})
	s.step(probed{id: "a", epoch: s.m.entries["a"].epoch, err: nil})
	s.answer("a", 0, "m")
	for range probesToFail {
		s.wait(DefaultProbeInterval)
		s.step(probed{id: "a", epoch: s.m.entries["a"].epoch, err: errors.New("/health answered 500")})
	}
	s.expect("a in_rotation->unhealthy")
	if got := s.complaints(); len(got) != 0 {
		t.Errorf("told twice: %q", got)
	}
	if l := s.snap.workers[0]; !l.Failed || !strings.Contains(l.Reason, "/health answered 500") {
		t.Errorf("listed %+v", l)
	}
}

// What a static worker that swallows packets looked like: a probe that "has not answered yet", for ever.
func TestAStaticWorkerThatIsSilentIsSaidOnceAndExplained(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net := &engines{}
		net.set("a:8000", hang)
		var log bytes.Buffer
		r, stop := start(t, Options{
			Static: static(t, "a=http://a:8000"), Transport: net, Log: slog.New(slog.NewTextHandler(&log, nil)),
		})
		defer stop()
		if got := r.Explain(); got != "1 discovered; 1 unhealthy: a: its health probe has not answered yet" {
			t.Errorf("before: %q", got)
		}
		after(10 * time.Minute)
		const why = "its health probe fails: /health: no answer within 5s"
		if got := r.Explain(); got != "1 discovered; 1 unhealthy, 1 of them asked: a: "+why {
			t.Errorf("explained %q", got)
		}
		if n := strings.Count(log.String(), why); n != 1 || !strings.Contains(log.String(), "level=WARN") {
			t.Errorf("said %d times:\n%s", n, log.String())
		}
	})
}

func TestOneThatFailedIsTheExampleOfItsState(t *testing.T) {
	s := newStory(t, Options{})
	s.list(at("a", "10.0.0.1:8000"), at("b", "10.0.0.2:8000"), at("c", "10.0.0.3:8000").but(conditionNotReady))
	s.refuse("b", errors.New("connection refused"))
	want := []string{
		"1 not_ready: ns/c: its endpoint is not ready",
		"2 unintrospected, 1 of them asked: ns/b: it does not say what it serves: connection refused",
	}
	if got := s.snap.explainWorkers(); strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("explained %q", got)
	}
}

func TestErrorsOfOneKindReadAlike(t *testing.T) {
	read := func(port uint16) error {
		return &net.OpError{
			Op: "read", Net: "tcp", Source: net.TCPAddrFromAddrPort(netip.AddrPortFrom(netip.MustParseAddr("10.0.0.9"), port)),
			Addr: net.TCPAddrFromAddrPort(netip.MustParseAddrPort("10.0.0.1:8000")), Err: errors.New("connection reset by peer"),
		}
	}
	var got []string
	for _, port := range []uint16{40001, 40002} {
		broken := roundTripper(func(*http.Request) (*http.Response, error) { return nil, read(port) })
		got = append(got, newAsker(Options{Transport: broken}).probe(t.Context(), "http://e:1").Error())
	}
	if got[0] != "/health: read tcp 10.0.0.1:8000: connection reset by peer" || got[1] != got[0] {
		t.Errorf("got %q", got)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := steady(ended, context.Canceled); !errors.Is(err, context.Canceled) {
		t.Errorf("a shutdown became %v", err)
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
