package httpapi

import (
	"net/http"
	"time"
)

// NewHTTPServer returns a server with this package's limits. idle is how long an
// unused connection is kept.
func NewHTTPServer(handler http.Handler, idle time.Duration) *http.Server {
	return &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: readHeaderTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		IdleTimeout:       idle,
	}
}
