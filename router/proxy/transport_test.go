package proxy

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestTheTransportPassesAnswersAsTheyAreAndIgnoresProxies(t *testing.T) {
	t.Setenv("HTTP_PROXY", "http://127.0.0.1:1")
	engine := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Got-Encoding", r.Header.Get("Accept-Encoding"))
		w.Header().Set("X-Got-Protocol", r.Proto)
	}))
	defer engine.Close()
	transport := NewTransport()
	defer transport.CloseIdleConnections()
	if transport.Proxy != nil || transport.MaxIdleConnsPerHost < 512 {
		t.Errorf("proxy set: %v, idle connections an engine: %d", transport.Proxy != nil, transport.MaxIdleConnsPerHost)
	}
	// A host name, as proxies are never used for loopback addresses.
	transport.DialContext = func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, strings.TrimPrefix(engine.URL, "http://"))
	}
	req, _ := http.NewRequest(http.MethodGet, "http://engine.example/", nil)
	resp, err := transport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.Header.Get("X-Got-Encoding") != "" || resp.Header.Get("X-Got-Protocol") != "HTTP/1.1" {
		t.Errorf("got %v", resp.Header)
	}
}
