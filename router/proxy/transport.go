package proxy

import (
	"net"
	"net/http"
	"time"
)

const (
	// connectTimeout bounds a dial to an engine. Inside a cluster a connection takes under a millisecond; a pod that
	// has just gone may swallow packets without an answer, and another engine should hear of the request soon.
	connectTimeout = 3 * time.Second
	// idleConnTimeout is below the 5 s after which uvicorn, the HTTP server of vLLM and SGLang, closes idle
	// connections: the router should be the one to close, so that no request meets a closing connection.
	idleConnTimeout = 4 * time.Second
	// A node that vanishes sends no end of its connections, and an engine may think for minutes: probes tell the two
	// apart within half a minute, so that a waiting request can move on. unacknowledgedTimeout does the same for a
	// request that was written and never acknowledged, for which the kernel would try a quarter of an hour.
	keepAliveIdle         = 15 * time.Second
	keepAliveInterval     = 5 * time.Second
	keepAliveCount        = 3
	unacknowledgedTimeout = 20 * time.Second
	// maxIdlePerEngine keeps a connection for each of the requests one engine commonly runs at once.
	maxIdlePerEngine = 512
	// maxAnswerHeaderBytes bounds the header block of an engine's answer.
	maxAnswerHeaderBytes = 256 << 10
)

// NewTransport returns the transport to the engines: HTTP/1.1 with many idle connections, no proxy from the
// environment, and no compression, so that answers pass as they are.
func NewTransport() *http.Transport {
	dialer := &net.Dialer{Timeout: connectTimeout, Control: giveUpUnacknowledged,
		KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: keepAliveIdle, Interval: keepAliveInterval, Count: keepAliveCount}}
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	return &http.Transport{
		DialContext:            dialer.DialContext,
		Protocols:              protocols,
		MaxIdleConnsPerHost:    maxIdlePerEngine,
		IdleConnTimeout:        idleConnTimeout,
		TLSHandshakeTimeout:    connectTimeout,
		MaxResponseHeaderBytes: maxAnswerHeaderBytes,
		DisableCompression:     true,
	}
}
