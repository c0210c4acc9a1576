package httpapi

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"sync"
)

// respond sends the answers of a submitted call.
func (s *Server) respond(ctx context.Context, w http.ResponseWriter, c *call) error {
	if c.job.stream {
		return s.respondStream(ctx, w, c)
	}
	return s.respondWhole(ctx, w, c)
}

// respondWhole waits for everything and sends one body.
func (s *Server) respondWhole(ctx context.Context, w http.ResponseWriter, c *call) error {
	for _, a := range c.answers {
		if err := drain(ctx, a); err != nil {
			return err
		}
	}
	if f, on := c.faults.get(FaultStall); on {
		s.faults.hit(f.Name)
		if err := wait(ctx, f.delay()); err != nil {
			return err
		}
	}
	body := mustJSON(c.job.format.whole(c.head, c.answers, usageOf(c.answers, c.job.choices)))
	s.recorder.update(c.rec, func(r *Record) { r.Status = http.StatusOK })
	if f, on := c.faults.get(FaultCut); on {
		s.faults.hit(f.Name)
		return errors.Join(&faultError{f.Name}, writeHalf(w, body))
	}
	writeJSON(w, http.StatusOK, body)
	return nil
}

// writeHalf promises the whole body, sends half and resets the connection.
func writeHalf(w http.ResponseWriter, body []byte) error {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	if _, err := w.Write(body[:len(body)/2]); err != nil {
		return err
	}
	return errors.Join(http.NewResponseController(w).Flush(), resetConnection(w))
}

func drain(ctx context.Context, a *answer) error {
	for {
		switch _, err := a.stream.Next(ctx); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
	}
}

// news is what happened to one answer: up to tokens are produced, or it ended.
type news struct {
	answer *answer
	tokens int
	err    error // io.EOF: answered whole
}

// follow reads all streams at once into one channel, until every one has ended
// or ctx has. The channel is closed when no reader is left.
func follow(ctx context.Context, answers []*answer) <-chan news {
	out := make(chan news)
	var readers sync.WaitGroup
	for _, a := range answers {
		readers.Go(func() {
			for tokens := 0; ; {
				event, err := a.stream.Next(ctx)
				tokens += len(event.Tokens)
				select {
				case out <- news{a, tokens, err}:
				case <-ctx.Done():
					return
				}
				if err != nil {
					return
				}
			}
		})
	}
	go func() { readers.Wait(); close(out) }()
	return out
}

// respondStream sends events as tokens come.
func (s *Server) respondStream(ctx context.Context, w http.ResponseWriter, c *call) error {
	ctx, cancel := context.WithCancel(ctx)
	items := follow(ctx, c.answers)
	defer func() { // leave no reader behind
		cancel()
		for range items {
		}
	}()
	// Headers go with the first event, as engines do: a client that waits for
	// headers waits for prefill.
	first, open := <-items
	if !open {
		return ctx.Err()
	}
	if first.err != nil && !errors.Is(first.err, io.EOF) {
		return first.err
	}
	s.recorder.update(c.rec, func(r *Record) { r.Status = http.StatusOK })
	out := newSSEWriter(ctx, w, c.faults, s.faults.hit)
	sent := make(map[*answer]int, len(c.answers)) // tokens rendered; absent: not opened
	for item, more := first, true; more; item, more = <-items {
		if err := s.render(out, c, sent, item); err != nil {
			return err
		}
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return s.closeStream(out, c)
}

// render writes the events of one piece of news: an event a token, one flush.
func (s *Server) render(out *sseWriter, c *call, sent map[*answer]int, item news) error {
	a, format := item.answer, c.job.format
	if _, opened := sent[a]; !opened {
		sent[a] = 0
		if err := out.value(format.open(c.head, a.index)); err != nil {
			return err
		}
	}
	for ; sent[a] < item.tokens; sent[a]++ {
		if sent[a] >= len(a.text) {
			continue // produced, but behind a stop string
		}
		if err := out.value(format.delta(c.head, a, sent[a], sent[a]+1)); err != nil {
			return err
		}
	}
	switch {
	case item.err == nil:
		return out.flush()
	case errors.Is(item.err, io.EOF):
		return errors.Join(out.value(format.close(c.head, a)), out.flush())
	default:
		return errors.Join(item.err, out.flush())
	}
}

func (s *Server) closeStream(out *sseWriter, c *call) error {
	if c.job.includeUsage {
		if err := out.value(c.job.format.usage(c.head, usageOf(c.answers, c.job.choices))); err != nil {
			return err
		}
	}
	if f, on := c.faults.get(FaultNoDone); on {
		s.faults.hit(f.Name)
		return errors.Join(&faultError{f.Name}, out.finish())
	}
	return errors.Join(out.event("[DONE]"), out.finish())
}
