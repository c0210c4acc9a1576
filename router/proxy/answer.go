package proxy

import (
	"net/http"
	"time"
)

// answer is the client's side of a request: the writer with what must be known of it at the end.
type answer struct {
	http.ResponseWriter
	status int // 0 until the header is written
	// abort asks the handler boundary to cut the connection instead of ending the answer properly.
	abort bool
	// stall is how long the client may leave the answer unread.
	stall   time.Duration
	allowed time.Time // until when writes may take, zero before the first
}

// Unwrap lets http.ResponseController find the connection.
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// WriteHeader records the status and gives the answer its first write deadline. The deadline is never cleared: the
// server flushes small answers after the handler has returned, and the next answer sets its own.
func (a *answer) WriteHeader(status int) {
	a.status = status
	a.extend()
	a.ResponseWriter.WriteHeader(status)
}

// extend moves the write deadline on, at most four times per stall period: it costs about as much as a small write.
func (a *answer) extend() {
	now := time.Now()
	if a.allowed.Sub(now) > a.stall*3/4 {
		return
	}
	a.allowed = now.Add(a.stall)
	// Writers without deadlines (tests) have no connection to stall.
	_ = http.NewResponseController(a.ResponseWriter).SetWriteDeadline(a.allowed)
}

func (a *answer) flush() error {
	return http.NewResponseController(a.ResponseWriter).Flush()
}

// clientGone ends the answer to a client that has left. What is sent from here on reaches nobody.
func (a *answer) clientGone() {
	if a.status == 0 {
		a.status = statusClientGone
	}
	a.abort = true
}
