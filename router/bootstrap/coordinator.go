package bootstrap

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/routerfleet/routerfleet/router/bootstrap/status"
	"github.com/routerfleet/routerfleet/router/index"
	"github.com/routerfleet/routerfleet/router/ingest"
	"github.com/routerfleet/routerfleet/router/peers"
)

// answersQueue bounds the answers that wait for the coordinator; whoever brings one waits.
const answersQueue = 64

// Coordinator runs a machine: it owns the timer, the goroutines that ask and fetch, and nothing else.
type Coordinator struct {
	opt      Options
	metrics  *metrics
	progress progress
	answers  chan input
	wg       sync.WaitGroup

	mu      sync.Mutex // guards machine; held for one step or one look
	machine *machine

	told status.Verdict // the last that was logged; Run's alone
}

// New checks the options and gives a coordinator. Nothing is asked before Run; the budget of the boot begins now.
func New(o Options) (*Coordinator, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	m, err := newMetrics(o.Metrics)
	if err != nil {
		return nil, err
	}
	c := &Coordinator{opt: o, metrics: m, answers: make(chan input, answersQueue), machine: newMachine(o, m, o.Now())}
	if o.Metrics != nil {
		if err := o.Metrics.Register(newCollector(c)); err != nil {
			return nil, fmt.Errorf("bootstrap: register metrics: %w", err)
		}
	}
	if t := o.fetchTimeout(); t < fetchFloor {
		o.Log.Warn("one fetch may take less than its floor: a large index will not arrive in time", "fetch", t.String(), "timeout", o.Timeout.String())
	}
	return c, nil
}

// Run asks and grafts until ctx ends, and returns nil then, with every goroutine it started gone. The pump must run. Call
// it once.
func (c *Coordinator) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer c.wg.Wait()
	defer cancel()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		peersChanged, upstreamChanged := c.opt.Peers.Changed(), c.upstreamChanged()
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
			c.step(ctx, nil)
		case <-c.opt.Pump.Changed():
			c.step(ctx, nil)
		case <-peersChanged:
			c.step(ctx, nil)
		case <-upstreamChanged:
			c.step(ctx, nil)
		case in := <-c.answers:
			c.step(ctx, in)
		}
		timer.Reset(c.pause())
	}
}

func (c *Coordinator) upstreamChanged() <-chan struct{} {
	if c.opt.UpstreamPeers == nil {
		return nil
	}
	return c.opt.UpstreamPeers.Changed()
}

func (c *Coordinator) pause() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.machine.pause(c.opt.Now())
}

// world looks at everything there is. Whether all engines were asked is read before the ranks: then none of theirs is
// missing.
func (c *Coordinator) world() world {
	w := world{complete: c.opt.Complete != nil && c.opt.Complete(), upstream: peers.Set{Synced: true}}
	w.ranks, w.set = c.opt.Pump.Ranks(), c.opt.Peers.Set()
	if c.opt.UpstreamPeers != nil {
		w.upstream = c.opt.UpstreamPeers.Set()
	}
	return w
}

func (c *Coordinator) step(ctx context.Context, in input) {
	w := c.world()
	c.mu.Lock()
	actions := c.machine.step(c.opt.Now(), w, in)
	c.mu.Unlock()
	for _, a := range actions {
		c.perform(ctx, a)
	}
	f := c.facts()
	c.progress.say(c.opt.Now(), c.opt.Log, f.done(), len(f.ranks))
	if v := f.verdict(); f.settled && v != c.told {
		c.opt.Log.Info("boot settled", "from", c.told, "verdict", v, "seeded_from", f.seededFrom, "ranks", len(f.ranks))
		c.told = v
	}
}

// perform has an action done. What goes over the network gets goroutines of its own; the pump is told in passing.
func (c *Coordinator) perform(ctx context.Context, a action) {
	var err error
	switch a := a.(type) {
	case doSurvey:
		c.survey(ctx, a)
	case doFetch:
		c.wg.Go(func() { c.bring(ctx, c.fetch(ctx, a)) })
	case doAbandon:
		err = c.opt.Pump.Abandon(ctx, a.ranks, a.why)
	case doKeep:
		err = c.opt.Pump.Keep(ctx, a.ranks)
	case doWitness:
		err = c.opt.Pump.Witness(ctx, a.at, a.watermark, a.testimony)
	case doSuspect:
		err = c.opt.Pump.Suspect(ctx, a.rank, a.at, a.how)
	case doEqual:
		err = c.opt.Pump.Equal(ctx, a.rank, a.at)
	case doBehind:
		err = c.opt.Pump.Behind(ctx, a.rank, a.at, a.sibling)
	}
	if err != nil && ctx.Err() == nil {
		c.opt.Log.Error("the pump was not told", "what", fmt.Sprintf("%T", a), "error", err)
	}
}

func (c *Coordinator) bring(ctx context.Context, in input) {
	select {
	case c.answers <- in:
	case <-ctx.Done():
	}
}

// survey asks peers for their tables, some at a time; each is answered, if only with an error.
func (c *Coordinator) survey(ctx context.Context, s doSurvey) {
	queue := make(chan peers.Peer, len(s.peers))
	for _, p := range s.peers {
		queue <- p
	}
	close(queue)
	budget, cancel := context.WithTimeoutCause(ctx, surveyBudget, errBudget)
	var askers sync.WaitGroup
	for range min(surveyAtOnce, len(s.peers)) {
		askers.Go(func() {
			for p := range queue {
				c.bring(ctx, c.ask(budget, s.id, p))
			}
		})
	}
	c.wg.Go(func() {
		askers.Wait()
		cancel()
	})
}

// errBudget is why a peer was not asked any more.
var errBudget = errors.New("the survey's time was up")

func (c *Coordinator) ask(ctx context.Context, id int, p peers.Peer) answered {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	if ctx.Err() != nil {
		return answered{survey: id, peer: p.ID, err: fmt.Errorf("ask %s for its cursors: %w", p.Name, context.Cause(ctx))}
	}
	t, err := c.opt.Client.Cursors(ctx, p)
	if err != nil {
		err = fmt.Errorf("ask %s for its cursors: %w", p.Name, err)
	}
	return answered{survey: id, peer: p.ID, table: t, err: err}
}

// fetch brings the sections of a peer's snapshot to the pump.
func (c *Coordinator) fetch(ctx context.Context, f doFetch) fetched {
	ctx, cancel := context.WithTimeout(ctx, f.timeout)
	defer cancel()
	out := fetched{slot: f.slot}
	fail := func(err error) fetched {
		out.err = fmt.Errorf("fetch from %s (%s): %w", f.peer.Name, f.peer.URL, err)
		return out
	}
	body, err := c.opt.Client.Fetch(ctx, f.peer, f.foreign, f.want)
	if body != nil {
		defer c.progress.follow(f, body, c.opt.Now())()
		defer func() { c.metrics.bytes.Add(float64(body.Progress().Bytes)) }()
		defer func() { _ = body.Close() }() // what was read is judged; the connection's end tells nothing
		out.table = body.Table()
	}
	if err != nil {
		return fail(err)
	}
	for {
		section, err := body.Next(ctx)
		if errors.Is(err, io.EOF) {
			out.left = body.Left()
			return out
		}
		if err != nil {
			return fail(err)
		}
		owed := c.owedNow(f, section)
		if len(owed) == 0 {
			continue
		}
		results, err := c.opt.Pump.Graft(ctx, section, owed)
		out.results = append(out.results, results...)
		if err != nil {
			return fail(err)
		}
	}
}

// owedNow gives the obligations a section may meet: those it was asked for, under the epochs of then; and of ranks that
// waited for their connection those they have now, if they may join late. A rank that was redialled meanwhile is not
// among them: what it holds now is younger than the export may be (H1).
func (c *Coordinator) owedNow(f doFetch, s Section) []ingest.RankEpoch {
	late := map[index.Rank]uint64{}
	if len(f.late) > 0 {
		ranks := c.opt.Pump.Ranks()
		for i := range ranks {
			if r := &ranks[i]; f.late[r.Rank] && r.boots() && r.Owed.LateJoin && !r.Owed.Since.IsZero() {
				late[r.Rank] = r.Owed.Epoch
			}
		}
	}
	var out []ingest.RankEpoch
	for _, v := range s.Ranks() {
		epoch, ok := f.asked[v.Rank]
		if !ok {
			epoch, ok = late[v.Rank]
		}
		if ok {
			out = append(out, ingest.RankEpoch{Rank: v.Rank, Epoch: epoch})
		}
	}
	return out
}
