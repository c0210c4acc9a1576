package remote

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/routerfleet/routerfleet/router/tokens/chat"
)

// Options of a Client. Zero values mean the stated default.
type Options struct {
	// Timeout bounds one question. Default DefaultTimeout. Raising it keeps requests waiting for a slow engine.
	Timeout time.Duration
	// CacheBytes bounds the kept answers. Default DefaultCacheBytes.
	CacheBytes int
	// Transport reaches the engines. Required.
	Transport http.RoundTripper
	// Now is the clock of pauses. Default time.Now.
	Now func() time.Time
	// Registerer receives the metrics. Default: nobody scrapes them.
	Registerer prometheus.Registerer
}

// Client asks engines for tokens. New makes it.
type Client struct {
	opts    Options
	cache   *cache
	metrics *metrics
	slots   chan struct{}
	// asking are the goroutines of questions; each ends with its timeout.
	asking sync.WaitGroup

	mu      sync.Mutex // guards what follows
	flights map[key]*flight
	health  map[healthKey]*health
	closed  bool
}

// flight is a question under way.
type flight struct {
	done   chan struct{}
	tokens []uint32 // once done
	err    error
}

// healthKey is a route of an engine; an empty path stands for the engine, anyAnswer for whether what it tells is right.
type healthKey struct{ engine, path string }

const anyAnswer = "*"

type health struct {
	failed int
	until  time.Time // not asked before
}

// New checks the options and registers the metrics. It starts nothing.
func New(o Options) (*Client, error) {
	if o.Timeout == 0 {
		o.Timeout = DefaultTimeout
	}
	if o.CacheBytes == 0 {
		o.CacheBytes = DefaultCacheBytes
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Transport == nil || o.Timeout < 0 || o.CacheBytes < 0 {
		return nil, errors.New("remote options: a transport is required, and no limit may be negative")
	}
	c := &Client{opts: o, cache: newCache(o.CacheBytes), slots: make(chan struct{}, maxAsked), flights: map[key]*flight{}, health: map[healthKey]*health{}}
	var err error
	c.metrics, err = newMetrics(o.Registerer, c)
	if err != nil {
		return nil, fmt.Errorf("register metrics of engine tokenization: %w", err)
	}
	return c, nil
}

// Tokens gives the tokens of a prompt. The caller must not change them. It returns when ctx ends at the latest, or with
// the timeout; a question that was asked goes on to its end for others and for the cache.
func (c *Client) Tokens(ctx context.Context, e Engine, p Prompt) ([]uint32, error) {
	if p.bytes() > maxQuestionBytes {
		return nil, c.metrics.counted(ErrTooLong)
	}
	k := p.key(e.Dialect)
	if tokens, ok := c.cache.get(k); ok {
		c.metrics.asked.WithLabelValues(resultCached).Inc()
		return tokens, nil
	}
	if c.paused(healthKey{e.ID, anyAnswer}) {
		return nil, c.metrics.counted(ErrBusy)
	}
	f, err := c.fly(ctx, k, e, p)
	if err != nil {
		return nil, c.metrics.counted(err)
	}
	select {
	case <-f.done:
		return f.tokens, f.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// Fresh gives the tokens of a prompt from the engine itself, past the cache.
func (c *Client) Fresh(ctx context.Context, e Engine, p Prompt) ([]uint32, error) {
	if p.bytes() > maxQuestionBytes {
		return nil, ErrTooLong
	}
	ctx, cancel := context.WithTimeout(ctx, freshTimeouts*c.opts.Timeout)
	defer cancel()
	return c.ask(ctx, e, p)
}

// freshTimeouts is how many timeouts a question may take that no request waits for.
const freshTimeouts = 20

// fly joins a question that is under way or begins it.
func (c *Client) fly(ctx context.Context, k key, e Engine, p Prompt) (*flight, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if f := c.flights[k]; f != nil {
		c.metrics.asked.WithLabelValues(resultShared).Inc()
		return f, nil
	}
	if c.closed {
		return nil, ErrBusy
	}
	select {
	case c.slots <- struct{}{}:
	default:
		return nil, ErrBusy
	}
	f := &flight{done: make(chan struct{})}
	c.flights[k] = f
	// The question outlives the client that asked first: others may have joined, and the answer is kept.
	c.asking.Go(func() {
		asking, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.opts.Timeout)
		defer cancel()
		began := c.opts.Now()
		f.tokens, f.err = c.ask(asking, e, p)
		if f.err == nil {
			c.cache.put(k, e.ID, f.tokens)
			c.metrics.duration.Observe(c.opts.Now().Sub(began).Seconds())
		}
		_ = c.metrics.counted(f.err)
		<-c.slots
		c.mu.Lock()
		delete(c.flights, k)
		c.mu.Unlock()
		close(f.done)
	})
	return f, nil
}

// Close returns when no question is under way. Whoever asks from then on hears ErrBusy.
func (c *Client) Close() {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.asking.Wait()
}

// ask tries the engine's routes until one has an answer.
func (c *Client) ask(ctx context.Context, e Engine, p Prompt) ([]uint32, error) {
	if c.paused(healthKey{e.ID, ""}) {
		return nil, ErrBusy
	}
	questions, err := p.questions(e.Dialect)
	if err != nil {
		return nil, err
	}
	for _, q := range questions {
		route := healthKey{e.ID, q.path}
		if c.paused(route) {
			continue
		}
		tokens, err := c.post(ctx, e, q)
		switch {
		case errors.Is(err, ErrUnsupported):
			c.pause(route, unsupportedFor)
			continue
		case errors.Is(err, errRefused): // the engine's word on the prompt, not on itself
		case err != nil && len(q.body) > excusedBytes: // so clients with long prompts take nobody's tokens away
		case err != nil:
			c.fail(healthKey{e.ID, ""})
		default:
			c.recovered(healthKey{e.ID, ""})
		}
		return tokens, err
	}
	return nil, ErrUnsupported
}

// errRefused says that the engine found the question wrong.
var errRefused = errors.New("remote: the engine refuses the prompt")

// modelNotFound is in a 404 of vLLM's that is of the model, such as an adapter that another engine has loaded, and not of the
// route.
var modelNotFound = []byte(`"NotFoundError"`)

func (c *Client) post(ctx context.Context, e Engine, q question) ([]uint32, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, strings.TrimSuffix(e.URL, "/")+q.path, bytes.NewReader(q.body))
	if err != nil {
		return nil, fmt.Errorf("ask %s for tokens: %w", e.URL, err)
	}
	req.Header.Set("Content-Type", "application/json")
	if e.APIKey != nil {
		if key := e.APIKey(); key != "" {
			req.Header.Set("Authorization", "Bearer "+key)
		}
	}
	resp, err := c.opts.Transport.RoundTrip(req)
	if err != nil {
		return nil, fmt.Errorf("ask %s%s for tokens: %w", e.URL, q.path, err)
	}
	defer resp.Body.Close()
	limit := min(maxAnswerBytes, answerBase+answerPerByte*len(q.body))
	body, err := io.ReadAll(io.LimitReader(resp.Body, int64(limit)+1))
	switch code := resp.StatusCode; {
	case code == http.StatusNotFound && bytes.Contains(body, modelNotFound):
		return nil, fmt.Errorf("%w: %s%s: it does not serve the model", errRefused, e.URL, q.path)
	case code == http.StatusNotFound || code == http.StatusMethodNotAllowed || code == http.StatusNotImplemented:
		return nil, ErrUnsupported
	case code >= 400 && code < 500 && code != http.StatusTooManyRequests && code != http.StatusRequestTimeout:
		return nil, fmt.Errorf("%w: %s%s: %s", errRefused, e.URL, q.path, resp.Status)
	case code != http.StatusOK:
		return nil, fmt.Errorf("ask %s%s for tokens: %s", e.URL, q.path, resp.Status)
	case err != nil:
		return nil, fmt.Errorf("ask %s%s for tokens: %w", e.URL, q.path, err)
	case len(body) > limit:
		return nil, ErrTooLong
	}
	return readAnswer(body)
}

func (c *Client) paused(k healthKey) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	h := c.health[k]
	return h != nil && c.opts.Now().Before(h.until)
}

// of gives an engine's record. Beyond the limit all begin anew: the records are of engines long gone, mostly.
func (c *Client) of(k healthKey) *health {
	h := c.health[k]
	if h == nil {
		if len(c.health) >= maxEngines {
			clear(c.health)
		}
		h = &health{}
		c.health[k] = h
	}
	return h
}

func (c *Client) pause(k healthKey, d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.of(k).until = c.opts.Now().Add(d)
}

// fail counts a failure; some in a row pause the engine.
func (c *Client) fail(k healthKey) {
	c.mu.Lock()
	defer c.mu.Unlock()
	h := c.of(k)
	if h.failed++; h.failed >= failures {
		h.failed, h.until = 0, c.opts.Now().Add(pauseFor)
	}
}

// Heard takes what became of the tokens that were told for a prompt: whether an engine that answered it had as many. Wrong
// ones are forgotten, and an engine that told differences in a row is not asked for doubtedFor; then it is believed again, but
// failures in a row are enough until one is right.
func (c *Client) Heard(d chat.Dialect, p Prompt, told []uint32, right bool) {
	teller, ok := c.cache.judge(p.key(d), told, right)
	if !ok {
		return
	}
	if !right {
		c.metrics.wrong.Inc()
	}
	k := healthKey{teller, anyAnswer}
	c.mu.Lock()
	defer c.mu.Unlock()
	h := c.health[k]
	switch {
	case h != nil && c.opts.Now().Before(h.until): // it is of before the pause
	case right:
		delete(c.health, k)
	default:
		h = c.of(k)
		if h.failed++; h.failed >= differences {
			h.failed, h.until = differences-failures, c.opts.Now().Add(doubtedFor)
		}
	}
}

func (c *Client) recovered(k healthKey) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.health, k)
}
