package simulation

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/routerfleet/routerfleet/internal/signed"
	"github.com/routerfleet/routerfleet/router/bootstrap"
	"github.com/routerfleet/routerfleet/router/bootstrap/status"
	"github.com/routerfleet/routerfleet/router/ingest"
	"github.com/routerfleet/routerfleet/router/peers"
	"github.com/routerfleet/routerfleet/router/snapshot"
)

// bootLimit is longer than any boot takes, in virtual time.
const bootLimit = 10 * time.Minute

// network joins routers that teach each other: requests are calls, bodies go through pipes.
type network struct {
	mu    sync.Mutex // guards all below
	next  int
	boots []*boot // of those who are there
}

var _ http.RoundTripper = (*network)(nil)

// boot is a router's part in the network.
type boot struct {
	peer        peers.Peer
	registry    *peers.Registry
	teacher     *snapshot.Handler
	coordinator *bootstrap.Coordinator
}

func newNetwork() *network { return &network{} }

func keys() []signed.Key {
	return []signed.Key{signed.NewKey([]byte("the token of a fleet that is not there"))}
}

// join makes a router a sibling of those who are there, and has it ask them. It ends with ctx.
func (n *network) join(ctx context.Context, pump *ingest.Pump, running *sync.WaitGroup) (*boot, error) {
	n.mu.Lock()
	n.next++
	name := fmt.Sprintf("router-%d", n.next)
	n.mu.Unlock()
	b := &boot{
		peer:     peers.Peer{ID: name, UID: name, Name: name, URL: "http://" + name + ":9400"},
		registry: peers.NewRegistry(nil, true, nil),
	}
	var err error
	b.coordinator, err = bootstrap.New(bootstrap.Options{
		PodUID: name, Pump: bootstrap.OfPump(pump), Peers: b.registry,
		Client: bootstrap.OfClient(snapshot.NewClient(snapshot.ClientOptions{Keys: keys, Transport: n})),
	})
	if err != nil {
		return nil, err
	}
	b.teacher = snapshot.NewHandler(ingest.NewSource(pump, ingest.SourceOptions{
		Ready: b.coordinator.Settled, SeedableSince: b.coordinator.SeedableSince,
	}), snapshot.Options{Keys: keys})
	n.mu.Lock()
	n.boots = append(n.boots, b)
	n.tell()
	n.mu.Unlock()
	running.Go(func() {
		_ = b.coordinator.Run(ctx) // it ends with ctx and says so
		b.teacher.Close()
	})
	return b, nil
}

// leave takes a router out, nil does nothing.
func (n *network) leave(b *boot) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.boots = slices.DeleteFunc(n.boots, func(o *boot) bool { return o == b })
	n.tell()
}

// tell gives everybody the others.
func (n *network) tell() {
	for _, b := range n.boots {
		var others []peers.Peer
		for _, o := range n.boots {
			if o != b {
				others = append(others, o.peer)
			}
		}
		b.registry.Replace(others)
	}
}

// wait returns when the router may serve. Of nil it returns at once.
func (b *boot) wait(ctx context.Context) error {
	if b == nil {
		return nil
	}
	for end := time.Now().Add(bootLimit); time.Now().Before(end); {
		if ready, _ := b.coordinator.Ready(); ready {
			b.coordinator.Admit()
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(10 * time.Millisecond):
		}
	}
	return errors.New("it is not ready after " + bootLimit.String())
}

// verdict is what the boot has won so far.
func (b *boot) verdict() status.Verdict {
	var s status.Status
	b.coordinator.Fill(&s)
	return s.Verdict
}

// RoundTrip calls the sibling that is named.
func (n *network) RoundTrip(r *http.Request) (*http.Response, error) {
	n.mu.Lock()
	at := slices.IndexFunc(n.boots, func(b *boot) bool { return b.peer.URL == "http://"+r.URL.Host })
	if at < 0 {
		n.mu.Unlock()
		return nil, fmt.Errorf("%s has left", r.URL.Host)
	}
	teacher := n.boots[at].teacher
	n.mu.Unlock()
	body, out := io.Pipe()
	w := &pipeWriter{header: http.Header{}, out: out, begun: make(chan int, 1)}
	call := r.Clone(r.Context())
	call.Host, call.RequestURI, call.Body = r.URL.Host, r.URL.RequestURI(), http.NoBody
	go func() {
		teacher.ServeHTTP(w, call)
		w.WriteHeader(http.StatusOK)
		_ = out.Close() // of a pipe: nil
	}()
	stop := context.AfterFunc(r.Context(), func() { _ = body.CloseWithError(context.Cause(r.Context())) })
	select {
	case code := <-w.begun:
		return &http.Response{
			StatusCode: code, Header: w.header, Body: pipeBody{body, stop}, ContentLength: -1, Request: r,
			Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		}, nil
	case <-r.Context().Done():
		return nil, context.Cause(r.Context())
	}
}

type pipeBody struct {
	*io.PipeReader
	stop func() bool
}

func (b pipeBody) Close() error {
	b.stop()
	return b.PipeReader.Close()
}

// pipeWriter is an http.ResponseWriter into a pipe.
type pipeWriter struct {
	header http.Header
	out    *io.PipeWriter
	once   sync.Once
	begun  chan int
}

func (w *pipeWriter) Header() http.Header { return w.header }

func (w *pipeWriter) WriteHeader(code int) { w.once.Do(func() { w.begun <- code }) }

func (w *pipeWriter) Write(p []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	return w.out.Write(p)
}
