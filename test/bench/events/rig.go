package main

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"github.com/routerfleet/routerfleet/router/index"
	"github.com/routerfleet/routerfleet/router/ingest"
	"github.com/routerfleet/routerfleet/router/kvevents"
)

const (
	// gcPercent is what the router sets for its own heap.
	gcPercent = 25
	// look is the pause before a sender that is far enough ahead looks again.
	look = 100 * time.Microsecond
	// patience is how long the pump may apply nothing before the run is given up.
	patience = 30 * time.Second
	// model and seed go into the keys of the tokens scheme.
	model = "m"
	seed  = index.Seed(7)
	// epoch is that of a rank's only connection.
	epoch = 1
)

// rig is a pump that runs, with ranks that follow their streams.
type rig struct {
	pump  *ingest.Pump
	ranks []index.Rank
	lanes []*kvevents.Lane
	tasks sync.WaitGroup
	stop  context.CancelFunc
}

// link is an engine that never restarts and repeats nothing.
type link struct{}

var engineStart = ingest.Start{Known: true, ID: "once"}

func (link) Redial(uint64)                      {}
func (link) Start(context.Context) ingest.Start { return engineStart }
func (link) Replay(_ context.Context, from int64) *kvevents.ReplayResult {
	return &kvevents.ReplayResult{Start: from, Ending: kvevents.Torn, Err: errors.New("this engine repeats nothing")}
}

func newRig(ctx context.Context, scheme index.Scheme, ranks int) (*rig, error) {
	debug.SetGCPercent(gcPercent)
	pump, err := ingest.New(ingest.Options{Seed: seed})
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(ctx)
	r := &rig{pump: pump, stop: stop}
	r.tasks.Go(func() { _ = pump.Run(ctx) }) // nil by its contract
	for i := range ranks {
		rank := index.Rank{Worker: "w", DP: int32(i)}
		err := pump.Register(ctx, ingest.Registration{Rank: rank, Worker: "w", Start: engineStart, Link: link{},
			Section: ingest.SectionKey{Model: model, Scheme: scheme, BlockSize: blockTokens}})
		if err != nil {
			r.close()
			return nil, err
		}
		r.ranks, r.lanes = append(r.ranks, rank), append(r.lanes, pump.Inbox().Lane(rank))
	}
	return r, nil
}

func (r *rig) close() {
	r.stop()
	r.tasks.Wait()
	for _, l := range r.lanes {
		l.Close()
	}
}

// applied counts the batches the pump has applied and published.
func (r *rig) applied() (n int) {
	v := r.pump.View()
	for _, rank := range r.ranks {
		n += int(v.Rank(rank).Status().Tally.Batches)
	}
	return n
}

// holds fails unless every rank holds just what its story says, learnt without a gap or a doubt.
func (r *rig) holds(blocks int) error {
	v := r.pump.View()
	var got int64
	for _, rank := range r.ranks {
		s := v.Rank(rank).Status()
		got += s.Blocks[0]
		if s.Trust != (ingest.Trust{}) || s.Cursor.Proof != ingest.Origin || s.Contradictions != 0 || s.Orphans != 0 || s.Counts.Dropped != (ingest.Counts{}).Dropped {
			return fmt.Errorf("the benchmark's own traffic was not understood: rank %d is %+v", rank.DP, *s)
		}
	}
	if got != int64(blocks) {
		return fmt.Errorf("the ranks hold %d blocks, want %d", got, blocks)
	}
	return nil
}

// wait returns when no more than ahead of the batches sent are not yet applied.
func (r *rig) wait(ctx context.Context, sent, ahead int) error {
	if sent-r.applied() <= ahead {
		return nil
	}
	t := time.NewTicker(look)
	defer t.Stop()
	last, progress := r.applied(), time.Now()
	for sent-last > ahead {
		select {
		case <-t.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if n := r.applied(); n != last {
			last, progress = n, time.Now()
		} else if time.Since(progress) > patience {
			return fmt.Errorf("the pump applied %d of %d batches and then none for %v", last, sent, patience)
		}
	}
	return nil
}

// stream sends batches from one on while more says so, at most window ahead of the pump, and returns when all are
// applied. It gives the number of the next batch.
func (r *rig) stream(ctx context.Context, from, window int, more func(n int) bool, send func(n int) error) (next int, err error) {
	n, known := from, r.applied()
	for ; more(n); n++ {
		if n-known >= window {
			if err := r.wait(ctx, n, window/2); err != nil {
				return n, err
			}
			known = r.applied()
		}
		if err := send(n); err != nil {
			return n, err
		}
	}
	return n, r.wait(ctx, n, 0)
}
