package snapshot

import (
	"crypto/sha256"
	"errors"
	"hash"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/klauspost/compress/gzip"

	"github.com/routerfleet/routerfleet/internal/signed"
)

// serveBody answers with a snapshot to a replica that has signed.
func (h *Handler) serveBody(w http.ResponseWriter, r *http.Request, q query, arrival time.Time, a answer) {
	select {
	case h.bodies <- struct{}{}:
		defer func() { <-h.bodies }()
	default:
		a.refuse(w, http.StatusServiceUnavailable, CodeBusy, "as many snapshots as may be are being served")
		return
	}
	h.busy.Add(1)
	defer h.busy.Add(-1)
	var err error
	switch q.format {
	case format2:
		err = h.serve2(w, r, q, arrival, a)
	case format1:
		err = h.serve1(w, r, q, arrival, a)
	default:
		err = errNotAcceptable
	}
	switch {
	case err == nil:
	case errors.Is(err, errNotFormat1), errors.Is(err, errNotAcceptable):
		a.refuse(w, http.StatusNotAcceptable, CodeNotAcceptable, err.Error())
	case r.Context().Err() == nil:
		a.refuse(w, http.StatusServiceUnavailable, CodeBuildFailed, err.Error())
	}
}

// serve2 writes a body of format 2. An error means that nothing was written.
func (h *Handler) serve2(w http.ResponseWriter, r *http.Request, q query, arrival time.Time, a answer) error {
	b, err := h.two.get(r.Context(), arrival, q.maxAge)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", MediaType)
	out := &patientWriter{w: w, control: http.NewResponseController(w)}
	defer out.done()
	if q.ranks != nil {
		err = b.writeSome(out, a.sign, q.ranks.wants)
	} else {
		w.Header().Set("Content-Length", strconv.FormatInt(b.size+b.signatures(a.sign), 10))
		err = b.write(out, a.sign)
	}
	h.abort(err)
	return nil
}

// serve1 writes a body of format 1, its signature in the HTTP trailer.
func (h *Handler) serve1(w http.ResponseWriter, r *http.Request, q query, arrival time.Time, a answer) error {
	b, err := h.one.get(r.Context(), arrival, q.maxAge)
	if err != nil {
		return err
	}
	header := w.Header()
	header.Set("Content-Type", "application/json")
	header.Add("Vary", "Accept-Encoding")
	header.Set("Trailer", signed.Header)
	patient := &patientWriter{w: w, control: http.NewResponseController(w)}
	defer patient.done()
	out := &digestWriter{w: patient, hash: sha256.New()}
	if q.gzip {
		header.Set("Content-Encoding", "gzip")
		err = writeGzip(out, b)
	} else {
		err = b.write(out)
	}
	header.Set(signed.Header, a.sign(digest(out.hash.Sum(nil))))
	h.abort(err)
	return nil
}

func writeGzip(w io.Writer, b *build1) error {
	z, err := gzip.NewWriterLevel(w, gzip.BestSpeed)
	if err != nil {
		return err
	}
	if err := b.write(z); err != nil {
		return err
	}
	return z.Close()
}

// abort ends a body that could not be written to its end: its reader sees that it was cut.
func (h *Handler) abort(err error) {
	if err != nil {
		h.opts.Log.Info("a snapshot was not taken to its end", "error", err)
		panic(http.ErrAbortHandler)
	}
}

// digestWriter digests what goes through it.
type digestWriter struct {
	w    io.Writer
	hash hash.Hash
}

func (d *digestWriter) Write(p []byte) (int, error) {
	d.hash.Write(p)
	return d.w.Write(p)
}

// patientWriter gives each write its own deadline: the listener's is for small answers, and a reader that takes nothing
// must not keep a place for ever.
type patientWriter struct {
	w       io.Writer
	control *http.ResponseController
	until   time.Time
}

func (p *patientWriter) Write(b []byte) (int, error) {
	if now := time.Now(); p.until.Sub(now) < writeIdle/2 {
		p.until = now.Add(writeIdle)
		_ = p.control.SetWriteDeadline(p.until) // not every writer has one: then the listener's holds
	}
	return p.w.Write(b)
}

// done takes the deadline back: the next answer on the connection is somebody else's.
func (p *patientWriter) done() { _ = p.control.SetWriteDeadline(time.Time{}) }
