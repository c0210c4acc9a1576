package snapshot

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/routerfleet/routerfleet/internal/signed"
)

var testKey = signed.NewKey([]byte("0123456789abcdef-test"))

func testKeys() []signed.Key { return []signed.Key{testKey} }

// rig is a producer behind HTTP and a client.
type rig struct {
	src     *memory
	handler *Handler
	server  *httptest.Server
	client  *Client
	peer    Peer
}

func newRig(t testing.TB, src *memory) *rig {
	t.Helper()
	r := &rig{src: src}
	var s Source
	if src != nil {
		s = src
	}
	r.handler = NewHandler(s, Options{Keys: testKeys})
	r.server = httptest.NewServer(r.handler)
	transport := &http.Transport{DisableCompression: true}
	r.client = NewClient(ClientOptions{Keys: testKeys, Transport: transport})
	r.peer = Peer{Name: "teacher", URL: r.server.URL}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		r.server.Close()
		r.handler.Close()
	})
	return r
}

// get makes a signed request and gives its whole answer.
func (r *rig) get(t testing.TB, query string, headers ...string) (*http.Response, []byte) {
	t.Helper()
	req, err := http.NewRequest(http.MethodGet, r.server.URL+Path+query, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	signed.Sign(req, nil, testKey, r.handler.opts.Now())
	resp, err := r.client.opts.Transport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, body
}

// fetch takes a body that must be taken, and restores all of it.
func (r *rig) fetch(t testing.TB, w Want) []*graft {
	t.Helper()
	body, err := r.client.Fetch(t.Context(), r.peer, w)
	if err != nil {
		t.Fatalf("fetch: %v", err)
	}
	defer body.Close()
	return restoreAll(t, body)
}

func restoreAll(t testing.TB, body *Body) (out []*graft) {
	t.Helper()
	for {
		v, err := body.Next(t.Context())
		if errors.Is(err, io.EOF) && ReasonOf(err) == "" {
			return out
		}
		if err != nil {
			t.Fatalf("next section: %v", err)
		}
		out = append(out, restore(t, v))
	}
}

// open reads a body without HTTP and signatures.
func open2(raw []byte, w Want) (*Body, error) {
	body, err := openBody2(newFrameReader(bytes.NewReader(raw), func(string, digest) error { return nil }), w, "teacher")
	return unwired(body), err
}

func open1(raw []byte, w Want) (*Body, error) {
	body, err := openBody1(bytes.NewReader(raw), w, "teacher")
	return unwired(body), err
}

// unwired gives a body that came without HTTP what HTTP would have given it.
func unwired(b *Body) *Body {
	if b != nil {
		b.ctx, b.cancel = context.WithCancelCause(context.Background())
		b.closed, b.read = func() error { return nil }, &atomic.Int64{}
	}
	return b
}

// drain reads a body to its end or to its first error.
func drain(b *Body) (chunks int, err error) {
	for {
		v, err := b.Next(context.Background())
		if err != nil {
			return chunks, err
		}
		for {
			if _, err = v.Next(context.Background()); err != nil {
				break
			}
			chunks++
		}
		if !errors.Is(err, io.EOF) || ReasonOf(err) != "" {
			return chunks, err
		}
	}
}

// encode builds a body of format 2, unsigned.
func encode(t testing.TB, src Source) []byte {
	t.Helper()
	b, err := produce(t.Context(), src)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := b.write(&out, func(digest) string { return "" }); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// encode1 builds a body of format 1.
func encode1(t testing.TB, src Source) []byte {
	t.Helper()
	b, err := produce1(t.Context(), src)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := b.write(&out); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}
