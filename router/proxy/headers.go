package proxy

import (
	"net/http"
	"net/textproto"
	"strings"
)

// hopByHop are the headers of one connection (RFC 9110 section 7.6.1, and Proxy-Connection, which old clients send).
// They never pass, in either direction, nor do the headers that Connection names.
var hopByHop = map[string]bool{
	"Connection":          true,
	"Proxy-Connection":    true,
	"Keep-Alive":          true,
	"Proxy-Authenticate":  true,
	"Proxy-Authorization": true,
	"Te":                  true,
	"Trailer":             true,
	"Transfer-Encoding":   true,
	"Upgrade":             true,
}

// forwarded are the request headers that reach an engine. An allow-list, because cookies, proxies' notes and the
// fleet's own headers are nobody's business there. Content-Length and Host are set for each attempt; Accept-Encoding
// is left out so that answers come uncompressed and their usage can be read.
var forwarded = map[string]bool{
	"Accept":              true,
	"Accept-Language":     true,
	"Authorization":       true,
	"Content-Type":        true,
	"Openai-Organization": true,
	"Openai-Project":      true,
	"User-Agent":          true,
	"X-Request-Id":        true,
	"X-Correlation-Id":    true,
	headerIdempotency:     true,
	"Traceparent":         true,
	"Tracestate":          true,
	"Baggage":             true,
}

// forwardedPrefixes are families of headers the engines define.
var forwardedPrefixes = []string{"X-Request-Id-", "X-Sgl-", "X-Stainless-"}

// withheld are answer headers that would tell clients where the engines are.
var withheld = map[string]bool{
	"Location":         true,
	"Content-Location": true,
	"Alt-Svc":          true,
	"Refresh":          true,
}

const (
	headerDPRank      = "X-Data-Parallel-Rank"
	headerIdempotency = "Idempotency-Key"
	headerErrorCode   = "X-Routerfleet-Error-Code" // canonical form of X-RouterFleet-Error-Code
	headerExplain     = "X-Routerfleet-Explain"    // and of X-RouterFleet-Explain
	headerToken       = "X-Routerfleet-Token"
	ownPrefix         = "X-Routerfleet-"
)

// requestHeader returns the headers of the client that go to an engine. workerKey, when not empty, replaces the
// client's Authorization.
func requestHeader(client http.Header, workerKey string) http.Header {
	named := connectionNames(client)
	out := make(http.Header, 8)
	for name, values := range client {
		if mayForward(name) && !named[name] {
			out[name] = values
		}
	}
	if workerKey != "" {
		out["Authorization"] = []string{"Bearer " + workerKey}
	}
	if _, ok := out["User-Agent"]; !ok {
		out["User-Agent"] = nil // Keeps net/http from writing a name of its own.
	}
	return out
}

func mayForward(name string) bool {
	if forwarded[name] {
		return true
	}
	for _, prefix := range forwardedPrefixes {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}

// copyAnswerHeader copies an engine's headers to the client's answer. Content-Length passes: the body does, byte for
// byte, so it stays true.
func copyAnswerHeader(to, from http.Header) {
	named := connectionNames(from)
	for name, values := range from {
		if hopByHop[name] || named[name] || withheld[name] || strings.HasPrefix(name, ownPrefix) {
			continue
		}
		to[name] = values
	}
	if _, ok := to["Content-Type"]; !ok {
		to["Content-Type"] = nil // Keeps net/http from guessing one.
	}
}

// connectionNames returns the canonical names listed in Connection headers; nil, which reads as empty, when there are
// none.
func connectionNames(h http.Header) map[string]bool {
	var names map[string]bool
	for _, line := range h["Connection"] {
		for name := range strings.SplitSeq(line, ",") {
			if name = textproto.TrimString(name); name == "" {
				continue
			}
			if names == nil {
				names = make(map[string]bool, 2)
			}
			names[http.CanonicalHeaderKey(name)] = true
		}
	}
	return names
}
