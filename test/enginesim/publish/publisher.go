package publish

import (
	"fmt"

	"github.com/routerfleet/routerfleet/test/enginesim"
)

// Publisher is the event streams of all ranks of one engine. It starts nothing;
// its methods are safe for concurrent use, and batches of one rank reach the sink
// in the order of their seqs.
type Publisher struct {
	opts   Options
	faults *faultSet
	ranks  []*stream
}

var _ enginesim.Observer = (*Publisher)(nil)

// New checks the options and allocates.
func New(opts Options) (*Publisher, error) {
	if err := opts.Validate(); err != nil {
		return nil, fmt.Errorf("configure event publishing: %w", err)
	}
	opts = opts.withDefaults()
	p := &Publisher{opts: opts, faults: newFaultSet()}
	for rank := range opts.DPSize {
		p.ranks = append(p.ranks, newStream(opts, rank, p.faults))
	}
	return p, nil
}

// Options returns what the publisher runs with, defaults filled in.
func (p *Publisher) Options() Options { return p.opts }

// Observe publishes one step of a rank as one batch.
func (p *Publisher) Observe(step enginesim.Step) { p.ranks[step.Rank].observe(step) }

// Replay answers a request for a rank's batches from start on. Nil is silence,
// by fault; otherwise the last answer is the terminator, unless a fault ate it.
func (p *Publisher) Replay(rank int, start uint64) []Answer { return p.ranks[rank].replay(start) }

// NextSeq is the seq of a rank's next batch.
func (p *Publisher) NextSeq(rank int) int64 {
	s := p.ranks[rank]
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.next
}

// Set switches a fault on, in place of an active one of its name.
func (p *Publisher) Set(f Fault) error {
	if err := f.check(len(p.ranks)); err != nil {
		return err
	}
	p.faults.set(f)
	p.release() // the ranks a new hang no longer names
	return nil
}

// Remove switches a fault off and tells whether it was on.
func (p *Publisher) Remove(name FaultName) bool {
	removed := p.faults.remove(func(n FaultName) bool { return n == name })
	p.release()
	return removed
}

// RemoveAll switches every fault off.
func (p *Publisher) RemoveAll() {
	p.faults.remove(func(FaultName) bool { return true })
	p.release()
}

// release lets ranks that no longer hang catch up.
func (p *Publisher) release() {
	for _, s := range p.ranks {
		s.mu.Lock()
		if !s.faults.hangs(s.rank) {
			s.release()
		}
		s.mu.Unlock()
	}
}

// Faults returns the active faults and how often each fault took effect so far.
func (p *Publisher) Faults() (active []Fault, used map[FaultName]int64) { return p.faults.list() }

// PlanRestart says how the next restart of each rank shows. The restart itself is
// the engine's (enginesim.Engine.Restart), which the observer hears of.
func (p *Publisher) PlanRestart(plan Restart) {
	for _, s := range p.ranks {
		s.mu.Lock()
		s.restart = plan
		s.mu.Unlock()
	}
}

// Babble publishes batches of blocks that do not exist, count in each, at once
// and back to back; rank nil is every rank.
func (p *Publisher) Babble(rank *int, batches, count int) error {
	if err := checkRank(rank, len(p.ranks)); err != nil {
		return err
	}
	most := MaxBabbleBytes / (p.opts.PageSize + dreamtBytes)
	if batches < 1 || count < 1 || batches > most/count {
		return fmt.Errorf("babble of %d batches of %d blocks: want 1 to %d blocks in all", batches, count, most)
	}
	for _, s := range p.ranks {
		if rank == nil || *rank == s.rank {
			s.babble(batches, count)
		}
	}
	return nil
}

// dreamtBytes is about what a made-up block takes in a payload, beside a byte a
// token.
const dreamtBytes = 40

func (s *stream) babble(batches, count int) {
	for range batches {
		s.mu.Lock() // anew each time: the truth gets a word in
		s.publish(s.opts.Now(), []event{s.dreamt(nil, count)})
		s.mu.Unlock()
	}
}
