package snapshot

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"
	"sync"
	"time"
)

// cache keeps the newest build of one format and has one made at a time, by a goroutine of its own: a caller that gives up
// ends nothing. An old build is dropped before the next is begun, and after keepBuild.
type cache[T any] struct {
	h      *Handler
	format int
	make   func(context.Context) (T, error)
	wg     sync.WaitGroup

	mu     sync.Mutex // guards all below; held for moments
	kept   *flight[T]
	flight *flight[T]
	timer  *time.Timer
}

// flight is a build, under way or done.
type flight[T any] struct {
	began time.Time // before the first cursor was read
	done  chan struct{}
	built T
	err   error
	// replaces: an old build has just been dropped.
	replaces bool
}

// fresh tells whether an export begun then is what a request wants that came in at arrival. What was begun after it is
// always: no event fell between.
func fresh(began, arrival time.Time, maxAge time.Duration) bool {
	return !began.Before(arrival) || arrival.Sub(began) < maxAge
}

func (c *cache[T]) init(h *Handler, format int, f func(context.Context) (T, error)) {
	c.h, c.format, c.make = h, format, f
}

// get gives a build that is fresh for a request, waiting for one if need be.
func (c *cache[T]) get(ctx context.Context, arrival time.Time, maxAge time.Duration) (T, error) {
	var none T
	for {
		f := c.join(arrival, maxAge)
		select {
		case <-f.done:
		case <-ctx.Done():
			return none, ctx.Err()
		}
		if fresh(f.began, arrival, maxAge) {
			return f.built, f.err
		}
	}
}

// join gives the kept build if it is fresh, else the one under way, else begins one.
func (c *cache[T]) join(arrival time.Time, maxAge time.Duration) *flight[T] {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.kept != nil && fresh(c.kept.began, arrival, maxAge) {
		return c.kept
	}
	if c.flight != nil {
		return c.flight
	}
	if err := c.h.ctx.Err(); err != nil { // closed: close waits for what was begun before
		f := &flight[T]{began: arrival, done: make(chan struct{}), err: err}
		close(f.done)
		return f
	}
	f := &flight[T]{began: c.h.opts.Now(), done: make(chan struct{}), replaces: c.kept != nil}
	c.drop()
	c.flight = f
	c.wg.Add(1)
	c.h.busy.Add(1)
	go c.run(f)
	return f
}

// run makes a build.
func (c *cache[T]) run(f *flight[T]) {
	defer c.wg.Done()
	defer c.h.busy.Add(-1)
	ctx, cancel := context.WithTimeout(c.h.ctx, buildLimit)
	defer cancel()
	if f.replaces {
		runtime.GC() // or the old build lies beside the new one: a quarter of the index each
	}
	f.built, f.err = guarded(ctx, c.make)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.flight = nil
	if f.err == nil {
		c.kept = f
		c.timer = time.AfterFunc(keepBuild, func() { c.expire(f) })
		c.h.opts.Log.Info("a snapshot was built", "format", c.format, "took", c.h.opts.Now().Sub(f.began))
	} else {
		c.h.opts.Log.Warn("a snapshot was not built", "format", c.format, "error", f.err)
	}
	close(f.done)
}

// guarded turns a panic of a walk into an error: the replica goes on serving.
func guarded[T any](ctx context.Context, f func(context.Context) (T, error)) (built T, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("build a snapshot: panic: %v\n%s", p, debug.Stack())
		}
	}()
	return f(ctx)
}

func (c *cache[T]) expire(f *flight[T]) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.kept == f {
		c.drop()
	}
}

// drop forgets what is kept. The lock is held.
func (c *cache[T]) drop() {
	c.kept = nil
	if c.timer != nil {
		c.timer.Stop()
		c.timer = nil
	}
}

// close waits for the build under way, and forgets what is kept.
func (c *cache[T]) close() {
	c.mu.Lock()
	c.drop()
	c.mu.Unlock()
	c.wg.Wait() // nothing is begun any more
	c.mu.Lock()
	defer c.mu.Unlock()
	c.drop()
}
