package enginesim

import (
	"context"
	"fmt"
	"math"
	"sync"
	"sync/atomic"

	"github.com/routerfleet/routerfleet/test/enginesim/cache"
)

// AnyRank lets the engine choose: the least loaded rank, the lowest of equals.
const AnyRank = -1

// Request is one prompt and the answer it will get; Answer makes one.
type Request struct {
	Prompt    []uint32
	Output    []uint32
	Rank      int    // a rank, or AnyRank
	CacheSalt string // prompts of different salts share no blocks; "" is none
}

// Engine is a set of ranks. Use New, then Run; the other methods are safe for
// concurrent use.
type Engine struct {
	opts  Options
	loops []*loop
	ids   atomic.Uint64
	done  chan struct{} // closed when Run returns
}

// New checks the options and allocates; nothing runs yet.
func New(opts Options) (*Engine, error) {
	if err := opts.Validate(); err != nil {
		return nil, fmt.Errorf("configure the engine double: %w", err)
	}
	opts = opts.withDefaults()
	e := &Engine{opts: opts, done: make(chan struct{})}
	for i := range opts.DPSize {
		e.loops = append(e.loops, newLoop(opts, i))
	}
	return e, nil
}

// Options returns what the engine runs with, defaults filled in.
func (e *Engine) Options() Options { return e.opts }

// Run works until ctx ends, then breaks off every live answer with ErrStopped.
// Call it once.
func (e *Engine) Run(ctx context.Context) error {
	defer close(e.done)
	var ranks sync.WaitGroup
	for _, l := range e.loops {
		ranks.Go(func() { l.run(ctx) })
	}
	ranks.Wait()
	return ctx.Err()
}

// Submit hands a request to a rank and returns its answer's stream. When ctx
// ends the sequence is dropped at once and counts as aborted. A *RequestError
// says what no engine of this size could serve.
func (e *Engine) Submit(ctx context.Context, req Request) (*Stream, error) {
	if err := e.check(req); err != nil {
		return nil, err
	}
	seq := newSequence(e.ids.Add(1), req, e.opts)
	l := e.choose(req.Rank)
	seq.stream = newStream(l.rank.index, seq.output(), e.done)
	l.load.Add(1)
	if err := e.send(ctx, l, submit{seq}); err != nil {
		l.load.Add(-1)
		return nil, err
	}
	// Behind the submit in the mailbox, so that a cancel finds its sequence or
	// one that has ended.
	seq.stream.watch(context.AfterFunc(ctx, func() {
		select {
		case l.mail <- cancel{seq.id}:
		case <-e.done:
		}
	}))
	return seq.stream, nil
}

func (e *Engine) check(req Request) error {
	switch total, room := len(req.Prompt)+len(req.Output), e.MaxTokens(); {
	case len(req.Prompt) == 0:
		return requestErrorf("the prompt is empty")
	case total > room:
		return requestErrorf("this engine holds %d tokens; the request needs %d (%d of prompt, %d of answer)",
			room, total, len(req.Prompt), len(req.Output))
	case req.Rank != AnyRank && (req.Rank < 0 || req.Rank >= len(e.loops)):
		return requestErrorf("data-parallel rank %d does not exist: this engine has ranks 0 to %d", req.Rank, len(e.loops)-1)
	}
	return nil
}

// MaxTokens is the most tokens of prompt and answer one request may have: what
// the pages of one rank hold.
func (e *Engine) MaxTokens() int {
	return min(MaxSequence, e.opts.Blocks*e.opts.PageSize)
}

func (e *Engine) choose(rank int) *loop {
	if rank != AnyRank {
		return e.loops[rank]
	}
	best, least := e.loops[0], int64(math.MaxInt64)
	for _, l := range e.loops {
		if load := l.load.Load(); load < least {
			best, least = l, load
		}
	}
	return best
}

func (e *Engine) send(ctx context.Context, l *loop, m message) error {
	select {
	case <-e.done: // the mailbox may have room and nobody to read it
		return ErrStopped
	default:
	}
	select {
	case l.mail <- m:
		return nil
	case <-e.done:
		return ErrStopped
	case <-ctx.Done():
		return ctx.Err()
	}
}

// ask sends every rank a message made by build and collects the answers in rank
// order.
func ask[T any](ctx context.Context, e *Engine, build func(chan<- T) message) ([]T, error) {
	answers := make([]T, 0, len(e.loops))
	for _, l := range e.loops {
		reply := make(chan T, 1)
		if err := e.send(ctx, l, build(reply)); err != nil {
			return nil, err
		}
		select {
		case answer := <-reply:
			answers = append(answers, answer)
		case <-e.done:
			return nil, ErrStopped
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return answers, nil
}

// State returns every rank's state, in rank order, each of its own moment.
func (e *Engine) State(ctx context.Context) ([]RankState, error) {
	return ask(ctx, e, func(reply chan<- RankState) message { return inspect{reply} })
}

// ClearCache empties the caches of all ranks. It returns the ranks that refused
// because a sequence is alive in them.
func (e *Engine) ClearCache(ctx context.Context) (busy []int, err error) {
	done, err := ask(ctx, e, func(reply chan<- bool) message { return clearCache{reply} })
	for i, ok := range done {
		if !ok {
			busy = append(busy, i)
		}
	}
	return busy, err
}

// Restart replaces every rank by a fresh one, as a process that is restarted in
// place: live answers end with ErrRestarted, caches are empty, and the observer
// hears Restarted where a new process would say nothing.
func (e *Engine) Restart(ctx context.Context) error {
	for _, l := range e.loops {
		reply := make(chan struct{})
		if err := e.send(ctx, l, restart{reply}); err != nil {
			return err
		}
		select {
		case <-reply:
		case <-e.done:
			return ErrStopped
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// Blocks returns the keys of the blocks each rank caches, in rank order, each of
// its own moment and in no order: the truth that events tell of.
func (e *Engine) Blocks(ctx context.Context) ([][]cache.Key, error) {
	return ask(ctx, e, func(reply chan<- []cache.Key) message { return enumerate{reply} })
}

// SetPace makes every token due from now on take factor times TokenInterval.
func (e *Engine) SetPace(ctx context.Context, factor float64) error {
	for _, l := range e.loops {
		if err := e.send(ctx, l, setPace{factor}); err != nil {
			return err
		}
	}
	return nil
}
