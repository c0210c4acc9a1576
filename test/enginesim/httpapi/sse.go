package httpapi

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strings"
	"time"
)

// faultError ends a request because a fault was told to end it.
type faultError struct{ name FaultName }

func (e *faultError) Error() string { return "fault " + string(e.name) }

// sseWriter writes server-sent events with the faults of one request.
type sseWriter struct {
	ctx     context.Context
	w       http.ResponseWriter
	control *http.ResponseController
	faults  requestFaults
	hit     func(FaultName)

	sent    int    // events written
	pending []byte // bytes that wait for a full piece
	piece   int    // bytes of one write under split_sse; 0: write at once
	eol     string
	comment bool
	stalled bool
}

func newSSEWriter(ctx context.Context, w http.ResponseWriter, faults requestFaults, hit func(FaultName)) *sseWriter {
	e := &sseWriter{ctx: ctx, w: w, control: http.NewResponseController(w), faults: faults, hit: hit, eol: "\n"}
	if f, on := faults.get(FaultSplitSSE); on {
		e.piece = f.ChunkBytes
		hit(f.Name)
	}
	if f, on := faults.get(FaultSSELines); on {
		e.eol = map[string]string{"lf": "\n", "crlf": "\r\n", "cr": "\r"}[f.LineEnd]
		e.comment = f.Comments
		hit(f.Name)
	}
	header := w.Header()
	header.Set("Content-Type", "text/event-stream; charset=utf-8")
	header.Set("Cache-Control", "no-cache")
	w.WriteHeader(http.StatusOK)
	return e
}

// value writes one event with a JSON value; nil is no event.
func (e *sseWriter) value(v any) error {
	if v == nil {
		return nil
	}
	return e.event(string(mustJSON(v)))
}

// event writes one event, unless a fault is due before it.
func (e *sseWriter) event(data string) error {
	if err := e.suffer(); err != nil {
		return err
	}
	e.sent++
	var frame strings.Builder
	if e.comment {
		frame.WriteString(": ping" + e.eol + e.eol)
	}
	frame.WriteString("data: " + data + e.eol + e.eol)
	return e.write(frame.String())
}

// suffer does what the stream faults want before the next event.
func (e *sseWriter) suffer() error {
	if f, on := e.faults.get(FaultStall); on && !e.stalled && e.sent >= f.AfterChunks {
		e.stalled = true
		e.hit(f.Name)
		if err := errors.Join(e.flush(), wait(e.ctx, f.delay())); err != nil {
			return err
		}
	}
	if f, on := e.faults.get(FaultStreamError); on && e.sent >= f.AfterChunks {
		e.hit(f.Name)
		broken := apiError{Status: http.StatusInternalServerError, Type: "InternalServerError", Message: "The generation was broken off (fault stream_error)."}
		return errors.Join(&faultError{f.Name}, e.write("data: "+string(broken.body())+e.eol+e.eol), e.finish())
	}
	if f, on := e.faults.get(FaultCut); on && e.sent >= f.AfterChunks {
		e.hit(f.Name)
		return errors.Join(&faultError{f.Name}, e.flush(), resetConnection(e.w))
	}
	return nil
}

func (e *sseWriter) write(text string) error {
	if e.piece == 0 {
		_, err := e.w.Write([]byte(text))
		return err
	}
	e.pending = append(e.pending, text...)
	for len(e.pending) >= e.piece {
		if _, err := e.w.Write(e.pending[:e.piece]); err != nil {
			return err
		}
		if err := e.control.Flush(); err != nil {
			return err
		}
		e.pending = e.pending[e.piece:]
	}
	return nil
}

// flush sends what was written. Under split_sse an incomplete piece waits for
// the bytes that complete it.
func (e *sseWriter) flush() error { return e.control.Flush() }

// finish sends everything.
func (e *sseWriter) finish() error {
	if len(e.pending) > 0 {
		if _, err := e.w.Write(e.pending); err != nil {
			return err
		}
		e.pending = nil
	}
	return e.flush()
}

// wait waits d, or for ever when d is 0, and ends early with ctx.
func wait(ctx context.Context, d time.Duration) error {
	var over <-chan time.Time
	if d > 0 {
		timer := time.NewTimer(d)
		defer timer.Stop()
		over = timer.C
	}
	select {
	case <-over:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// resetConnection drops the client's connection with an RST instead of a FIN:
// what a killed engine looks like.
func resetConnection(w http.ResponseWriter) error {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return err
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		if err := tcp.SetLinger(0); err != nil {
			return errors.Join(err, conn.Close())
		}
	}
	return conn.Close()
}
