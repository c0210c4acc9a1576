package loadgen

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/routerfleet/routerfleet/test/data/traces"
)

// Run sends what the options say and returns how it went. Ending ctx ends the
// sending; requests on their way are still waited for, up to their Timeout. An
// error means that nothing, or not everything, could be tried; failed requests
// are no error but counted in the Result.
func Run(ctx context.Context, o Options) (Result, error) {
	if err := o.Validate(); err != nil {
		return Result{}, fmt.Errorf("configure the load: %w", err)
	}
	o = o.withDefaults()
	o.Target, o.Direct = strings.TrimRight(o.Target, "/"), strings.TrimRight(o.Direct, "/")
	if o.Model == "" {
		model, err := firstModel(ctx, o)
		if err != nil {
			return Result{}, err
		}
		o.Model = model
	}
	jobs, total, err := plan(o)
	if err != nil {
		return Result{}, err
	}
	r := &run{opts: o, total: total, begin: time.Now(), tally: newTally(), lines: json.NewEncoder(o.Output)}
	if err := r.load(ctx, jobs); err != nil {
		return Result{}, err
	}
	result := r.tally.result(time.Since(r.begin))
	result.Mode, result.Target, result.Model = o.Mode, o.Target, o.Model
	result.Interrupted = ctx.Err() != nil
	if o.Direct != "" {
		result.Probe = runProbe(ctx, o, o.Model)
	}
	return result, r.write(result)
}

// plan returns the jobs and how many there will be; 0 is without end.
func plan(o Options) (source, int, error) {
	if o.Mode == Steady {
		return first(o.Requests, steadySource(o, o.Model)), o.Requests, nil
	}
	requests, err := traces.Conversation()
	if err != nil {
		return nil, 0, err
	}
	if o.Requests > 0 && o.Requests < len(requests) {
		requests = requests[:o.Requests]
	}
	return traceSource(requests, o, o.Model), len(requests), nil
}

// first ends a source after n jobs; 0 never ends it.
func first(n int, next source) source {
	if n == 0 {
		return next
	}
	return func() (job, bool) {
		if n == 0 {
			return job{}, false
		}
		n--
		return next()
	}
}

// run is a run in progress; the goroutine of load owns it.
type run struct {
	opts  Options
	total int
	begin time.Time
	tally *tally
	lines *json.Encoder

	lastLine time.Time
	lastDone int
}

// load runs the senders and counts what they report, until all is done.
func (r *run) load(ctx context.Context, next source) error {
	sending, stop := context.WithCancel(ctx)
	defer stop()
	if r.opts.Duration > 0 {
		sending, stop = context.WithTimeout(ctx, r.opts.Duration)
		defer stop()
	}
	jobs, outcomes := make(chan job), make(chan outcome)
	var dispatcher, senders sync.WaitGroup
	dispatcher.Go(func() { defer close(jobs); r.dispatch(sending, next, jobs) })
	for range r.opts.Connections {
		// Requests outlive the end of sending; each has its own timeout.
		senders.Go(func() { r.work(context.WithoutCancel(ctx), jobs, outcomes) })
	}
	go func() { senders.Wait(); close(outcomes) }()
	err := r.count(outcomes)
	dispatcher.Wait()
	return err
}

// dispatch hands out jobs at their time, or as fast as they are taken.
func (r *run) dispatch(ctx context.Context, next source, jobs chan<- job) {
	for ctx.Err() == nil {
		j, more := next()
		if !more {
			return
		}
		if wait := time.Until(r.begin.Add(j.due)); j.paced && wait > 0 {
			select {
			case <-time.After(wait):
			case <-ctx.Done():
				return
			}
		}
		select {
		case jobs <- j:
		case <-ctx.Done():
			return
		}
	}
}

// work is one connection.
func (r *run) work(ctx context.Context, jobs <-chan job, outcomes chan<- outcome) {
	s := newSender(r.opts.Target, r.opts.NewConnections)
	defer s.close()
	for j := range jobs {
		request := j.build()
		ctx, cancel := context.WithTimeout(ctx, r.opts.Timeout)
		began := time.Since(r.begin)
		o := s.send(ctx, request)
		cancel()
		o.index, o.began, o.paced, o.late = j.index, began, j.paced, j.late(began)
		outcomes <- o
	}
}

// count adds outcomes until there are no more, with a line each second.
func (r *run) count(outcomes <-chan outcome) error {
	ticker := time.NewTicker(progressInterval)
	defer ticker.Stop()
	r.lastLine = r.begin
	var broken error
	for {
		select {
		case o, more := <-outcomes:
			if !more {
				return broken
			}
			r.tally.add(o)
		case now := <-ticker.C:
			if err := r.write(r.progress(now)); err != nil && broken == nil {
				broken = err // senders must still be emptied
			}
		}
	}
}

func (r *run) progress(now time.Time) Progress {
	done, elapsed := r.tally.done(), now.Sub(r.begin)
	p := Progress{
		Type: "progress", Done: done, Total: r.total, Failed: r.tally.failed,
		RPS: rate(done-r.lastDone, now.Sub(r.lastLine)), Fraction: r.fraction(done, elapsed), Elapsed: elapsed.Seconds(),
	}
	r.lastDone, r.lastLine = done, now
	return p
}

// fraction is how far the run is, by whichever end comes first.
func (r *run) fraction(done int, elapsed time.Duration) float64 {
	byCount, byTime := 0.0, 0.0
	if r.total > 0 {
		byCount = float64(done) / float64(r.total)
	}
	if r.opts.Duration > 0 {
		byTime = elapsed.Seconds() / r.opts.Duration.Seconds()
	}
	return min(1, max(byCount, byTime))
}

func (r *run) write(line any) error {
	if err := r.lines.Encode(line); err != nil {
		return fmt.Errorf("write a %T line: %w", line, err)
	}
	return nil
}
