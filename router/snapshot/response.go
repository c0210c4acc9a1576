package snapshot

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/klauspost/compress/gzip"
)

// noBody reads what a refusal says. Nothing but its status and code is used, so its signature does not matter.
func noBody(resp *http.Response) *NoBody {
	e := &NoBody{Status: resp.StatusCode}
	var said struct {
		Error struct {
			Code string `json:"code"`
		} `json:"error"`
	}
	if b, err := io.ReadAll(io.LimitReader(resp.Body, maxRefusalBytes)); err == nil && json.Unmarshal(b, &said) == nil {
		e.Code = said.Error.Code[:min(len(said.Error.Code), maxText)]
	}
	if s, err := strconv.Atoi(resp.Header.Get("Retry-After")); err == nil && s > 0 && s < 3600 {
		e.RetryAfter = time.Duration(s) * time.Second
	}
	return e
}

func builds(resp *http.Response) int {
	n, err := strconv.Atoi(resp.Header.Get(BuildsHeader))
	if err != nil || n < 0 {
		return 0
	}
	return n
}

// inflated gives the text of a body of format 1, bounded.
func inflated(resp *http.Response, r io.Reader) (io.Reader, error) {
	switch coding := resp.Header.Get("Content-Encoding"); {
	case coding == "":
		return &boundedReader{r: r, left: maxBodyBytes}, nil
	case strings.EqualFold(coding, "gzip"):
		z, err := gzip.NewReader(&boundedReader{r: r, left: maxBodyBytes})
		if err != nil {
			return nil, reject(Malformed, "the body says it is gzip and is not: %v", err)
		}
		out := &boundedReader{r: z, left: maxBodyBytes}
		if resp.Request != nil {
			out.over = resp.Request.Context().Err
		}
		return out, nil
	default:
		return nil, reject(Malformed, "the body has the coding %q, which was not asked for", coding)
	}
}

// boundedReader fails beyond a limit, and when over says why: what is inflated goes on coming for a while after the
// connection was closed.
type boundedReader struct {
	r    io.Reader
	left int64
	over func() error // nil: never
}

func (b *boundedReader) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, reject(Malformed, "the body has more than %d bytes", int64(maxBodyBytes))
	}
	if b.over != nil {
		if err := b.over(); err != nil {
			return 0, err
		}
	}
	n, err := b.r.Read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	return n, err
}

// countedReader counts what is read and watches that something comes.
type countedReader struct {
	r     io.Reader
	watch *idleWatch
	n     atomic.Int64
}

func (c *countedReader) Read(p []byte) (int, error) {
	c.watch.begin()
	n, err := c.r.Read(p)
	c.watch.end()
	c.n.Add(int64(n))
	return n, err
}

// ErrIdle ends a fetch whose peer sends nothing.
var ErrIdle = errors.New("snapshot: the peer sends nothing")

// idleWatch cancels a fetch when one wait takes too long. Time the reader takes for itself does not count.
type idleWatch struct {
	limit time.Duration
	timer *time.Timer
}

func newIdleWatch(limit time.Duration, cancel context.CancelCauseFunc) *idleWatch {
	w := &idleWatch{limit: limit, timer: time.AfterFunc(limit, func() { cancel(fmt.Errorf("%w for %v", ErrIdle, limit)) })}
	w.timer.Stop()
	return w
}

func (w *idleWatch) begin() { w.timer.Reset(w.limit) }
func (w *idleWatch) end()   { w.timer.Stop() }
