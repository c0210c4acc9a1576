package ingest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/routerfleet/routerfleet/router/index"
	"github.com/routerfleet/routerfleet/router/kvevents"
)

const (
	// maxSections bounds the indexes.
	maxSections = 16
	// answerQueue bounds the answers that wait for the pump; whoever brings one waits.
	answerQueue = 64
	// maxStartQuestions bounds the engines that are asked for their start at one time.
	maxStartQuestions = 16
)

// ErrStopped says that the pump no longer runs.
var ErrStopped = errors.New("ingest: the pump has stopped")

// Pump is the one writer of every index. Run is its goroutine; other methods may be called from any.
type Pump struct {
	opt     Options
	inbox   *kvevents.Inbox
	control chan control
	answers chan answer
	doubts  *doubts
	changed chan struct{} // has a value when somebody should look
	stopped chan struct{}
	view    atomic.Pointer[View]

	// What follows is Run's alone.
	ranks    map[index.Rank]*pumped
	sections map[SectionKey]*Section
	desk     *desk
	starts   chan struct{}
	wg       sync.WaitGroup
	ctx      context.Context
	dirty    []*pumped
	arrival  arrived
	epochs   uint64      // obligations numbered so far
	audits   []time.Time // when audits had ranks repaired lately
	blocks   []int       // scratch of divide
}

// pumped is a rank with all that is the pump's of it.
type pumped struct {
	Registration
	state  *rankState
	ledger *ledger
	public *Rank
	doubt  doubt
	dirty  bool
	owed   *Owed // as published
	// evicted is how many of its blocks the cap had taken at the last tick.
	evicted uint64
}

// answer is what a question of a rank came to.
type answer struct {
	rank *pumped
	msg  message
}

// control is what others ask of the pump: a closed set.
type control interface{ run(p *Pump) }

type (
	registerRank struct {
		reg  Registration
		done chan error
	}
	forgetRank struct {
		rank index.Rank
		done chan struct{}
	}
	relocateRank struct {
		reg  Registration
		done chan error
	}
	resizeRank struct {
		rank   index.Rank
		tokens int64
	}
)

// New checks the options and gives a pump. Nothing runs before Run.
func New(o Options) (*Pump, error) {
	if o.MaxBlocks < 0 {
		return nil, fmt.Errorf("ingest: MaxBlocks is %d, it must not be negative", o.MaxBlocks)
	}
	o = o.withDefaults()
	p := &Pump{
		opt: o, inbox: kvevents.NewInbox(o.Budget),
		control: make(chan control), answers: make(chan answer, answerQueue), doubts: newDoubts(), changed: make(chan struct{}, 1), stopped: make(chan struct{}),
		ranks: map[index.Rank]*pumped{}, sections: map[SectionKey]*Section{},
		desk: newDesk(o.Jitter), starts: make(chan struct{}, maxStartQuestions),
	}
	p.publish()
	if o.Metrics != nil {
		if err := o.Metrics.Register(newCollector(p)); err != nil {
			return nil, fmt.Errorf("ingest: register metrics: %w", err)
		}
	}
	return p, nil
}

// Inbox is where subscriptions put what they hear.
func (p *Pump) Inbox() *kvevents.Inbox { return p.inbox }

// View gives the ranks and indexes there are. It never blocks and never is nil.
func (p *Pump) View() *View { return p.view.Load() }

// Register makes a rank known, before its subscription begins. A rank that is known already is not reset: it learns the
// new link, and whether the engine repeats.
func (p *Pump) Register(ctx context.Context, r Registration) error {
	if err := r.validate(); err != nil {
		return fmt.Errorf("ingest: register rank %d of %s: %w", r.Rank.DP, r.Worker, err)
	}
	done := make(chan error, 1)
	if err := p.tell(ctx, registerRank{r, done}); err != nil {
		return err
	}
	return <-done
}

// Relocate says that a known rank's engine publishes elsewhere or otherwise now: it restarted. The old subscription must
// be over.
func (p *Pump) Relocate(ctx context.Context, r Registration) error {
	if err := r.validate(); err != nil {
		return fmt.Errorf("ingest: relocate rank %d of %s: %w", r.Rank.DP, r.Worker, err)
	}
	done := make(chan error, 1)
	if err := p.tell(ctx, relocateRank{r, done}); err != nil {
		return err
	}
	return <-done
}

// Forget drops a rank and all it holds, and returns when that is done: a rank that is registered again at once begins
// anew, and loses nothing of it.
func (p *Pump) Forget(ctx context.Context, r index.Rank) error {
	done := make(chan struct{})
	if err := p.tell(ctx, forgetRank{r, done}); err != nil {
		return err
	}
	<-done
	return nil
}

// Resize says that a rank's cache holds another number of tokens than at its registration. Of a rank that is not known it
// says nothing.
func (p *Pump) Resize(ctx context.Context, r index.Rank, tokens int64) error {
	return p.tell(ctx, resizeRank{r, tokens})
}

func (m resizeRank) run(p *Pump) {
	if r := p.ranks[m.rank]; r != nil {
		p.resize(r, m.tokens)
	}
}

func (p *Pump) resize(r *pumped, tokens int64) {
	if r.public.capacity.Swap(tokens) != tokens {
		p.publish()
	}
}

func (p *Pump) tell(ctx context.Context, c control) error {
	select {
	case p.control <- c:
		return nil
	case <-p.stopped:
		return ErrStopped
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Run pumps until ctx ends, and returns nil then, with every goroutine it started gone. Call it once.
func (p *Pump) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	p.ctx = ctx
	defer p.releaseHeld()
	defer p.drainAnswers()
	defer p.wg.Wait()
	defer cancel()
	defer close(p.stopped)
	ticker := time.NewTicker(tickEvery)
	defer ticker.Stop()
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	idle := make(chan struct{})
	close(idle)
	for {
		p.askDue()
		p.flush()
		p.divide()
		p.setTimer(timer)
		var work chan struct{} // never ready
		if p.busy() {
			work = idle
		}
		select {
		case <-ctx.Done():
			return nil
		case c := <-p.control:
			c.run(p)
		case a := <-p.answers:
			p.answered(a)
		case <-p.doubts.ready:
			p.hear()
		case <-p.inbox.Ready():
			p.drain()
		case <-ticker.C:
			p.tick()
		case <-timer.C: // a replay is due
		case <-work:
			p.work()
		}
	}
}

func (p *Pump) setTimer(t *time.Timer) {
	if at, ok := p.desk.next(); ok {
		t.Reset(max(time.Millisecond, at.Sub(p.opt.Now())))
	} else {
		t.Stop()
	}
}

// drain takes what has arrived, a bounded number of deliveries and blocks at a time.
func (p *Pump) drain() {
	for n, blocks := 0, 0; n < drainAtOnce && blocks < drainBlocks; n++ {
		d, ok := p.inbox.Take()
		if !ok {
			return
		}
		if d.Batch != nil { // which is released by whoever it is delivered to
			blocks += blocksOf(d.Batch)
		}
		p.deliver(d)
	}
}

func (p *Pump) deliver(d kvevents.Delivery) {
	r := p.ranks[d.Rank]
	if r == nil { // forgotten meanwhile
		if d.Batch != nil {
			d.Batch.Release()
		}
		return
	}
	switch d.Kind {
	case kvevents.Opened:
		p.step(r, opened{d.Epoch})
	case kvevents.Closed:
		p.step(r, closed{d.Epoch})
	case kvevents.Reset:
		p.step(r, ended{d.Epoch})
	case kvevents.Arrived:
		p.arrival = arrived{d.Epoch, d.Batch, p.opt.Budget.Tight()}
		p.step(r, &p.arrival)
	}
}

func (p *Pump) tick() {
	now := p.opt.Now()
	p.desk.tidy(now)
	for _, r := range p.ranks {
		p.step(r, tick{})
		if h := r.ledger.holder; h != nil && h.Evicted != r.evicted { // for another's blocks, maybe
			r.evicted = h.Evicted
			p.touch(r)
		}
	}
	for _, s := range p.sections {
		s.busy = true // audits come from readers
		s.account()
	}
}

func (p *Pump) busy() bool {
	for _, s := range p.sections {
		if p.hasWork(s) {
			return true
		}
	}
	return false
}

func (p *Pump) hasWork(s *Section) bool {
	return s.busy || s.limit > 0 && s.Index.Stats().Nodes > s.limit
}

// work gives each index that has something to do a slice of time.
func (p *Pump) work() {
	for _, s := range p.sections {
		if p.hasWork(s) {
			s.busy = s.Index.Work(workBudget)
		}
	}
}

func (p *Pump) answered(a answer) {
	if m, ok := a.msg.(replayed); ok {
		failed := m.result.Ending != kvevents.Complete && m.result.Ending != kvevents.Cancelled
		p.desk.done(p.opt.Now(), a.rank.Rank, failed)
	}
	p.step(a.rank, a.msg)
}

// step has a rank take a message and performs what it wants done.
func (p *Pump) step(r *pumped, m message) {
	now := p.opt.Now()
	effects := r.state.step(now, m)
	for _, e := range effects {
		p.perform(now, r, e)
	}
	if _, idle := m.(tick); !idle || len(effects) > 0 {
		p.touch(r)
	}
}

// touch has a rank published at the next flush.
func (p *Pump) touch(r *pumped) {
	if !r.dirty {
		r.dirty = true
		p.dirty = append(p.dirty, r)
	}
}

func (p *Pump) perform(now time.Time, r *pumped, e effect) {
	switch e := e.(type) {
	case apply:
		r.ledger.apply(now, e.batch)
		if !e.keep {
			e.batch.Release()
		}
	case discard:
		e.batch.Release()
	case clearAll:
		r.ledger.clear()
	case distrust:
		r.contiguous(e.is)
	case redial:
		r.Link.Redial(e.epoch)
		p.opt.Log.Info("rank redialled", "worker", r.Worker, "rank", r.Rank.DP, "epoch", e.epoch, "why", e.why.String())
	case askReplay:
		p.desk.ask(now, replayAsk{rank: r.Rank, gen: e.gen, from: e.from}, e.wait)
	case dropReplay:
		p.desk.drop(r.Rank)
	case askStart:
		p.askStart(r, e.epoch)
	case drop:
		r.ledger.close()
	case moved:
		p.opt.Log.Info("rank changed", "worker", r.Worker, "rank", r.Rank.DP,
			"from", e.from.String(), "to", e.to.String(), "why", e.why, "seq", r.state.cursor.Seq)
	case noted:
		p.opt.Log.Warn(e.what, "worker", r.Worker, "rank", r.Rank.DP, "why", e.why, "seq", r.state.cursor.Seq)
	}
}

// contiguous tells the index how the rank's depth is to be answered.
func (r *pumped) contiguous(only bool) {
	if h := r.ledger.holder; h != nil {
		doubted := r.doubt.is && r.doubt.life == h.State()
		r.ledger.section.Index.SetContiguous(h, only || r.ledger.suspect.is || doubted)
	}
}

// askDue asks the replays whose turn it is.
func (p *Pump) askDue() {
	for _, a := range p.desk.due(p.opt.Now()) {
		r := p.ranks[a.rank]
		switch {
		case r == nil:
			p.desk.done(p.opt.Now(), a.rank, false)
		case a.refused:
			p.step(r, replayed{a.gen, &kvevents.ReplayResult{Start: a.from, Ending: kvevents.Torn, Err: errCooling}})
		default:
			link := r.Link // another one after a relocation
			p.wg.Go(func() {
				result := link.Replay(p.ctx, a.from)
				p.bring(answer{r, replayed{a.gen, result}})
			})
		}
	}
}

var errCooling = errors.New("ingest: the last replay failed a moment ago")

func (p *Pump) askStart(r *pumped, epoch uint64) {
	link := r.Link
	p.wg.Go(func() {
		select {
		case p.starts <- struct{}{}:
		case <-p.ctx.Done():
			return
		}
		start := link.Start(p.ctx)
		<-p.starts
		p.bring(answer{r, identified{epoch, start}})
	})
}

// bring hands an answer to the pump. One that nobody takes any more is released.
func (p *Pump) bring(a answer) {
	select {
	case p.answers <- a:
	case <-p.ctx.Done():
		a.release()
	}
}

func (a answer) release() {
	if m, ok := a.msg.(replayed); ok {
		m.result.Release()
	}
}

// drainAnswers releases what nobody took.
func (p *Pump) drainAnswers() {
	for {
		select {
		case a := <-p.answers:
			a.release()
		default:
			return
		}
	}
}

// releaseHeld gives back what waited for something that will not come any more.
func (p *Pump) releaseHeld() {
	for _, r := range p.ranks {
		for _, b := range slices.Concat(r.state.held.take(), r.state.kept.take()) {
			b.Release()
		}
	}
}

func (m registerRank) run(p *Pump) { m.done <- p.register(m.reg) }

func (p *Pump) register(reg Registration) error {
	known := p.ranks[reg.Rank]
	if known != nil && known.Section == reg.Section {
		known.Registration = reg
		p.resize(known, reg.CapacityTokens)
		p.step(known, registered{reg.Start, reg.Replays})
		return nil
	}
	section, err := p.section(reg.Section)
	if err != nil {
		return err
	}
	if known != nil { // the engine restarted with another model or block size
		p.forget(known)
	}
	r := &pumped{
		Registration: reg, state: newRankState(cmp.Or(reg.Identity, reg.Rank.Worker), p.mint()), ledger: newLedger(section, reg.Rank),
		public: &Rank{Rank: reg.Rank, Worker: reg.Worker, Engine: reg.engine(), Section: section},
	}
	r.public.capacity.Store(reg.CapacityTokens)
	p.ranks[reg.Rank] = r
	p.step(r, registered{reg.Start, reg.Replays})
	p.flush()
	p.publish()
	return nil
}

// mint gives what numbers the obligations of all ranks, nil if there are none.
func (p *Pump) mint() func() uint64 {
	if !p.opt.Bootstrap {
		return nil
	}
	return func() uint64 {
		p.epochs++
		return p.epochs
	}
}

func (p *Pump) section(k SectionKey) (*Section, error) {
	if s := p.sections[k]; s != nil {
		return s, nil
	}
	if len(p.sections) == maxSections {
		return nil, fmt.Errorf("ingest: there are %d indexes already, none for %s: split the fleet by model", maxSections, k)
	}
	s := &Section{Key: k, Seed: p.opt.Seed, seedID: seedID(p.opt.Seed), random: p.opt.Rand, limit: p.opt.MaxBlocks,
		Index: index.New(index.Options{MaxBlocks: p.opt.MaxBlocks, Rand: p.opt.Rand})}
	s.account()
	p.sections[k] = s
	p.opt.Log.Info("index created", "section", k.String())
	return s, nil
}

func (m forgetRank) run(p *Pump) {
	if r := p.ranks[m.rank]; r != nil {
		p.forget(r)
		p.publish()
	}
	close(m.done)
}

// forget drops a rank, and its index with the last one in it.
func (p *Pump) forget(r *pumped) {
	p.step(r, forget{})
	p.desk.drop(r.Rank)
	p.flush()
	delete(p.ranks, r.Rank)
	s := r.ledger.section
	if s.ledgers--; s.ledgers == 0 {
		delete(p.sections, s.Key)
		p.opt.Log.Info("index dropped", "section", s.Key.String())
	}
}

func (m relocateRank) run(p *Pump) {
	r := p.ranks[m.reg.Rank]
	if r == nil || r.Section != m.reg.Section {
		m.done <- p.register(m.reg)
		return
	}
	r.Registration = m.reg
	p.resize(r, m.reg.CapacityTokens)
	p.step(r, relocated{})
	p.step(r, registered{m.reg.Start, m.reg.Replays})
	m.done <- nil
}
