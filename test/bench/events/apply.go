package main

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"time"

	"github.com/routerfleet/routerfleet/router/index"
	"github.com/routerfleet/routerfleet/router/kvevents"
)

const (
	// applyRanks share the blocks evenly and say their batches in turn.
	applyRanks = 8
	// applyWindow is how many batches a rank's lane holds at most: a sender never waits for room.
	applyWindow = kvevents.LaneBatches / 4
)

// chorus are ranks that speak in turn to one pump.
type chorus struct {
	*rig
	stories []*story
	form    kvevents.Form
	chunks  bool
}

func newChorus(ctx context.Context, r row) (*chorus, error) {
	rig, err := newRig(ctx, r.Scheme, applyRanks)
	if err != nil {
		return nil, err
	}
	c := &chorus{rig: rig, form: kvevents.IntegerForm, chunks: r.Scheme == index.SchemeTokens}
	if r.Scheme == index.SchemeVLLM {
		c.form = kvevents.BytesForm
	}
	for i, l := range c.lanes {
		c.stories = append(c.stories, newStory(uint64(i), r.Blocks/applyRanks, r.Batch/2, false))
		if err := l.Deliver(ctx, kvevents.Delivery{Epoch: epoch, Kind: kvevents.Opened}); err != nil {
			c.close()
			return nil, err
		}
	}
	return c, nil
}

// say delivers batch n of all: the ranks take turns.
func (c *chorus) say(ctx context.Context, n int) error {
	i := n % len(c.lanes)
	b := c.stories[i].batch(n/len(c.lanes), c.form, c.chunks)
	return c.lanes[i].Deliver(ctx, kvevents.Delivery{Epoch: epoch, Kind: kvevents.Arrived, Batch: b})
}

func (c *chorus) fills() int { return len(c.lanes) * c.stories[0].fills() }

func (c *chorus) resident() int { return len(c.lanes) * c.stories[0].resident() }

// tell says batches from one on while more says so.
func (c *chorus) tell(ctx context.Context, from int, more func(n int) bool) (next int, err error) {
	return c.stream(ctx, from, applyWindow*len(c.lanes), more, func(n int) error { return c.say(ctx, n) })
}

// apply measures the pump from the lanes' end on: continuity, index, published status.
func (f *figures) apply(roundTime time.Duration) error {
	ctx := context.Background()
	c, err := newChorus(ctx, f.Row)
	if err != nil {
		return err
	}
	defer c.close()
	warm, err := c.tell(ctx, 0, func(n int) bool { return n < c.fills() })
	if err != nil {
		return err
	}
	runtime.GC()
	began := time.Now()
	end, err := c.tell(ctx, warm, func(n int) bool { return n == warm || time.Since(began) < roundTime })
	if err != nil {
		return err
	}
	took := time.Since(began).Seconds()
	f.Batches = float64(end-warm) / took
	f.Blocks = f.Batches * float64(f.Row.Batch)
	return c.holds(c.resident())
}

// bytesABlock is memory a (rank, block).
type bytesABlock struct{ Worst, End float64 }

// keyMapSamples is how often the maps are weighed while they grow.
const keyMapSamples = 40

// keyMap weighs what the tokens scheme keeps beside the index, engine hash to key, while the ranks fill: the live heap
// of ingest's keyMap by the runtime's own profile, which at rate 1 has every allocation.
func (f *figures) keyMap() error {
	before := runtime.MemProfileRate
	runtime.MemProfileRate = 1
	defer func() { runtime.MemProfileRate = before }()
	ctx := context.Background()
	c, err := newChorus(ctx, f.Row)
	if err != nil {
		return err
	}
	defer c.close()
	next := 0
	for i := 1; i <= keyMapSamples; i++ {
		upTo := c.fills() * i / keyMapSamples
		if next, err = c.tell(ctx, next, func(n int) bool { return n < upTo }); err != nil {
			return err
		}
		bytes, mapped := liveHeap("ingest.(*keyMap)", "ingest.newKeyMap"), c.mapped()
		if bytes == 0 || mapped == 0 {
			return fmt.Errorf("%d blocks have keys, and the profile knows of %d bytes for them: has keyMap another name?", mapped, bytes)
		}
		f.BytesABlock.End = float64(bytes) / float64(mapped)
		// Below a tenth of the blocks the maps' fixed parts weigh more than they do.
		if i > keyMapSamples/10 {
			f.BytesABlock.Worst = max(f.BytesABlock.Worst, f.BytesABlock.End)
		}
	}
	return c.holds(c.resident())
}

// mapped counts the engine hashes that have a key, over all ranks.
func (r *rig) mapped() (n int) {
	v := r.pump.View()
	for _, rank := range r.ranks {
		n += v.Rank(rank).Status().Mapped
	}
	return n
}

// liveHeap gives the bytes in use that one of the functions allocated.
func liveHeap(functions ...string) (bytes int64) {
	runtime.GC() // the profile is that of the last collection but one
	runtime.GC()
	records := make([]runtime.MemProfileRecord, 1024)
	n, ok := runtime.MemProfile(records, false)
	for !ok {
		records = make([]runtime.MemProfileRecord, 2*n)
		n, ok = runtime.MemProfile(records, false)
	}
	for _, r := range records[:n] {
		frames := runtime.CallersFrames(r.Stack())
		for more := true; more; {
			var frame runtime.Frame
			frame, more = frames.Next()
			if namesAny(frame.Function, functions) {
				bytes += r.InUseBytes()
				break
			}
		}
	}
	return bytes
}

func namesAny(function string, parts []string) bool {
	for _, p := range parts {
		if strings.Contains(function, p) {
			return true
		}
	}
	return false
}
