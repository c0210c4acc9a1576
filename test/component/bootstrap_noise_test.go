package component

import (
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/routerfleet/routerfleet/router/app"
	"github.com/routerfleet/routerfleet/router/bootstrap/status"
	"github.com/routerfleet/routerfleet/router/snapshot"
)

// noise is a peer that is no replica at all, or whose bodies never end.
type noise func(t *testing.T, honest string) http.HandlerFunc

// relay passes cursors of an honest peer on, as they were signed, and does with bodies what it likes.
func relay(t *testing.T, honest string, body http.HandlerFunc) http.HandlerFunc {
	pass := passed(t, honest)
	return func(w http.ResponseWriter, r *http.Request) {
		if strings.Contains(r.URL.RawQuery, "cursors_only") {
			pass(w, r)
			return
		}
		body(w, r)
	}
}

// passed gives an honest peer's answers: what is signed, host included, stays as it is.
func passed(t *testing.T, honest string) http.HandlerFunc {
	t.Helper()
	target, err := url.Parse(honest)
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{DisableCompression: true, DisableKeepAlives: true}
	return func(w http.ResponseWriter, r *http.Request) {
		there := *target
		there.Path, there.RawQuery = r.URL.Path, r.URL.RawQuery
		req := &http.Request{Method: r.Method, URL: &there, Host: r.Host, Header: r.Header.Clone()}
		resp, err := transport.RoundTrip(req.WithContext(r.Context()))
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		defer resp.Body.Close()
		for k, v := range resp.Header {
			w.Header()[k] = v
		}
		w.WriteHeader(resp.StatusCode)
		_, _ = io.Copy(w, resp.Body)
	}
}

// trickle sends a piece again and again, with a pause or without, until nobody reads.
func trickle(piece string, pause time.Duration) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", snapshot.MediaType)
		for tick := time.NewTicker(max(pause, 1)); ; {
			if _, err := io.WriteString(w, piece); err != nil {
				tick.Stop()
				return
			}
			if pause == 0 {
				continue
			}
			w.(http.Flusher).Flush()
			select {
			case <-tick.C:
			case <-r.Context().Done():
				tick.Stop()
				return
			}
		}
	}
}

// slowly gives an honest peer's body, signed as it is, a byte at a time.
func slowly(t *testing.T, honest string) http.HandlerFunc {
	pass := passed(t, honest)
	return func(w http.ResponseWriter, r *http.Request) {
		rec := httptest.NewRecorder()
		pass(rec, r)
		w.Header().Set("Content-Type", rec.Header().Get("Content-Type"))
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for _, b := range rec.Body.Bytes() {
			if _, err := w.Write([]byte{b}); err != nil {
				return
			}
			w.(http.Flusher).Flush()
			select {
			case <-tick.C:
			case <-r.Context().Done():
				return
			}
		}
	}
}

var noises = map[string]noise{
	"garbage with 200": func(*testing.T, string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "<html>welcome</html>") }
	},
	"redirects to an honest one": func(_ *testing.T, honest string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, honest+r.URL.RequestURI(), http.StatusTemporaryRedirect)
		}
	},
	"cursors that never end": func(*testing.T, string) http.HandlerFunc { return trickle(strings.Repeat("{},", 1<<14), 0) },
	"cursors by the byte":    func(*testing.T, string) http.HandlerFunc { return trickle("x", 20*time.Millisecond) },
	"an honest body by the byte": func(t *testing.T, h string) http.HandlerFunc {
		return relay(t, h, slowly(t, h))
	},
	"a body by the byte": func(t *testing.T, h string) http.HandlerFunc {
		return relay(t, h, trickle("R", 20*time.Millisecond))
	},
	"a body that never ends": func(t *testing.T, h string) http.HandlerFunc {
		return relay(t, h, trickle(strings.Repeat("\x00", 1<<16), 0))
	},
	"a body that never comes": func(t *testing.T, h string) http.HandlerFunc {
		return relay(t, h, trickle("", time.Hour))
	},
	"a body that is redirected": func(t *testing.T, h string) http.HandlerFunc {
		return relay(t, h, func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, h+r.URL.RequestURI(), http.StatusFound)
		})
	},
	"a body that is nothing": func(t *testing.T, h string) http.HandlerFunc {
		return relay(t, h, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", snapshot.MediaType)
		})
	},
}

// Whatever a peer answers costs the boot some time at most: the next one is asked.
func TestAPeerOfNoiseNeitherHoldsNorSpoilsABoot(t *testing.T) {
	for name, n := range noises {
		t.Run(name, func(t *testing.T) {
			f := newSharingFleet(t, kvKinds[0], 2, mute)
			first := f.mutelyWarm(12)
			s := httptest.NewServer(n(t, first.admin))
			t.Cleanup(func() { s.CloseClientConnections(); s.Close() })
			o := f.options(s.URL)
			o.KVBootstrapTimeoutMS = 2000
			alone := f.late(o)
			alone.awaitReady()
			if n, s := alone.plants(first, 12), alone.bootstrap(); n != 0 || warmed(s) || s.SeededFrom != "" {
				t.Errorf("%d hits are planted: %+v", n, s)
			}
			o = f.options(s.URL, first.admin)
			o.KVBootstrapTimeoutMS = 10_000
			both := f.late(o)
			both.awaitReady()
			both.matches(first, 12)
		})
	}
}

// Of the open stack's format, which is asked of strangers, gzip may be a bomb.
func TestAStrangersGzipThatInflatesForEverHoldsNoBoot(t *testing.T) {
	f := newSharingFleet(t, kvKinds[0], 1, mute)
	first := f.mutelyWarm(4)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Encoding", "gzip")
		z := gzip.NewWriter(w)
		_, err := io.WriteString(z, `{"format":1,"producer_ready":true,"x":[`)
		for zeros := strings.Repeat("0,", 1<<16); err == nil && r.Context().Err() == nil; {
			_, err = io.WriteString(z, zeros)
		}
	}))
	t.Cleanup(func() { s.CloseClientConnections(); s.Close() })
	o := f.options()
	o.KVUpstreamPeer, o.KVBootstrapTimeoutMS = []string{s.URL}, 2000
	r := f.late(o)
	r.awaitReady()
	if s := r.bootstrap(); warmed(s) || r.plants(first, 4) != 0 {
		t.Errorf("got %+v", s)
	}
}

func TestAPeerWhoseClockIsTwoMinutesOffIsNamed(t *testing.T) {
	for _, off := range []time.Duration{2 * time.Minute, -2 * time.Minute} {
		f := newSharingFleet(t, kvKinds[0], 2, mute)
		first := f.mutelyWarm(12)
		p := newImpostor(t, first, true)
		o := f.options(p.serve(t, func() time.Time { return time.Now().Add(off) }))
		o.KVBootstrapTimeoutMS = 1500
		r := f.late(o)
		r.awaitReady()
		s := r.bootstrap()
		if len(s.Problems) != 1 || s.Problems[0].Code != status.CodeClockSkew || s.Problems[0].Count != 1 || s.PeersAsked[0].Answer != "refused" {
			t.Errorf("%v: problems %+v, answers %+v", off, s.Problems, s.PeersAsked)
		}
		if n := r.plants(first, 12); n != 0 || warmed(s) {
			t.Errorf("%v: %d plants, %v", off, n, s.Verdict)
		}
	}
}

// An honest peer is found among very many that are gone.
func TestAWarmSiblingIsFoundAmongTwoThousandPeers(t *testing.T) {
	f := newSharingFleet(t, kvKinds[0], 2, mute)
	first := f.mutelyWarm(12)
	var peers []string
	for i := range 2000 {
		if i == 1234 {
			peers = append(peers, first.admin)
		}
		peers = append(peers, fmt.Sprintf("http://127.%d.%d.1:1", 100+i/250, 1+i%250))
	}
	o := f.options(peers...)
	o.KVBootstrapTimeoutMS = 110_000 // a busy machine takes its time to be refused so often
	r := f.late(o)
	r.awaitReady()
	r.matches(first, 12)
	if s := r.bootstrap(); s.Peers.Known != 2001 || len(s.PeersAsked) > 16 {
		t.Errorf("peers %+v, %d listed", s.Peers, len(s.PeersAsked))
	}
}

func TestFiveReplicasThatBootAtOnceAreTaughtByOne(t *testing.T) {
	f := newSharingFleet(t, kvKinds[0], 2, mute)
	first := f.mutelyWarm(bootPrompts)
	var late []*kvRouter
	for range 5 {
		late = append(late, f.late(f.options(first.admin)))
	}
	for _, r := range late {
		r.awaitReady()
		r.matches(first, 40)
		if s := r.bootstrap(); !warmed(s) {
			t.Errorf("got %+v", s)
		}
	}
}

// rotate writes a new peer token into a router's directory, as a mounted Secret changes.
func rotate(t *testing.T, o app.Options, files map[string]string) {
	t.Helper()
	for name, token := range files {
		if err := os.WriteFile(filepath.Join(o.TokenDir, name), []byte(token), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// While a new token is under way some replicas have it and others do not; a boot gets through at any moment of it.
func TestABootGetsThroughARotationOfTheToken(t *testing.T) {
	const older, newer = "peer-token-of-the-component-tests", "peer-token-of-after-the-rotation"
	f := newSharingFleet(t, kvKinds[0], 2, mute)
	o := f.options()
	first := f.mutelyWarmBy(o, 12)
	v := newValve(t, first.admin)
	gate := make(chan struct{})
	v.gate.Store(&gate)
	second := f.late(f.options(v.url())) // has the old one, and is answered after the change
	rotate(t, o, map[string]string{"peer": newer, "peer.previous": older})
	third := f.options(first.admin) // has the new one before the teacher may have read it
	rotate(t, third, map[string]string{"peer": newer, "peer.previous": older})
	late := f.late(third)
	v.gate.Store(nil)
	close(gate)
	for _, r := range []*kvRouter{second, late} {
		r.awaitReady()
		r.matches(first, 12)
	}
}
