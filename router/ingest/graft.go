package ingest

import (
	"context"
	"errors"
	"io"

	"github.com/routerfleet/routerfleet/router/index"
	"github.com/routerfleet/routerfleet/router/kvevents"
	"github.com/routerfleet/routerfleet/router/snapshot"
)

const (
	// feedAtOnce bounds what of a section the pump restores between two messages, in blocks, hashes and orphans: well below
	// a millisecond.
	feedAtOnce = 1024
	// drainAtOnceBlocks bounds the blocks of kept batches that are applied to what was restored, likewise.
	drainAtOnceBlocks = 1024
)

// graft is a section on its way into an index. Its methods, but feed, are the pump's.
type graft struct {
	key     snapshot.SectionKey
	results []GraftResult
	ranks   []*scion // by number in the offer
	restore *index.Restore
	section *Section
}

// scion is one rank of a graft.
type scion struct {
	pumped  *pumped
	result  *GraftResult
	section snapshot.VettedRank
	shadow  *ledger
	at      Cursor // reached by what is kept; without proof before the section is whole
	dead    bool
}

// graftStep has the pump do one step of a graft.
type graftStep struct {
	do   func(p *Pump) (more bool)
	done chan bool
}

func (m graftStep) run(p *Pump) { m.done <- m.do(p) }

// during has the pump do a step and waits for it.
func (p *Pump) during(ctx context.Context, do func(p *Pump) bool) (more bool, err error) {
	m := graftStep{do, make(chan bool, 1)}
	if err := p.tell(ctx, m); err != nil {
		return false, err
	}
	return <-m.done, nil
}

// Graft offers a section for what ranks are owed. It pulls the section's chunks in the caller's goroutine and has the pump
// restore them bit by bit, unseen; once the section is whole, what was held beyond its cursors is applied to it and all
// of it becomes the ranks' state at once. An error is one of the section or of the context: nothing has changed then.
func (p *Pump) Graft(ctx context.Context, v *snapshot.Vetted, owed []RankEpoch) ([]GraftResult, error) {
	return graftBy(ctx, p.during, vetted{v}, owed)
}

// stepper has the pump do a step, waits for it, and gives what it gave.
type stepper func(ctx context.Context, do func(p *Pump) bool) (more bool, err error)

// graftBy grafts with whatever reaches the pump.
func graftBy(ctx context.Context, during stepper, v offer, owed []RankEpoch) ([]GraftResult, error) {
	g := &graft{key: v.Key(), results: make([]GraftResult, len(owed))}
	for i, o := range owed {
		g.results[i].RankEpoch = o
	}
	accepted := map[index.Rank]bool{}
	offered := v.Ranks()
	if _, err := during(ctx, func(p *Pump) bool { return g.sort(p, offered, accepted) }); err != nil {
		return nil, err
	}
	if len(accepted) == 0 {
		return g.results, nil
	}
	v.Retain(func(r index.Rank) bool { return accepted[r] })
	offered = v.Ranks()
	more, err := during(ctx, func(p *Pump) bool { return g.begin(p, offered) })
	if more {
		err = g.pull(ctx, during, v)
	}
	for more = more && err == nil; more && err == nil; {
		more, err = during(ctx, g.end)
	}
	if err != nil {
		_, _ = during(context.WithoutCancel(ctx), g.drop) // fails when the pump has stopped, and its indexes with it
		return nil, err
	}
	return g.results, nil
}

// pull hands the section to the pump, chunk by chunk. Once no rank is left that wants it the rest is not read.
func (g *graft) pull(ctx context.Context, during stepper, v offer) error {
	f := &feed{}
	send := func() error {
		more, err := during(ctx, func(p *Pump) bool { return g.take(p, f) })
		if f.reset(); err == nil && !more {
			err = errUnwanted
		}
		return err
	}
	for {
		c, err := v.next(ctx)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = f.fill(c, send)
		}
		if errors.Is(err, errUnwanted) {
			return nil // end finds every rank dead
		}
		if err != nil {
			return err
		}
	}
}

var errUnwanted = errors.New("ingest: no rank wants the section any more")

// feed is a bounded piece of a section on its way to the pump.
type feed struct {
	size    int
	runs    []feedRun
	keys    []index.Key
	who     []index.Holding
	hashes  []ofRank[snapshot.HashRow]
	orphans []ofRank[snapshot.OrphanRow]
}

// feedRun is a chain: keys and carriers up to these places in the feed's.
type feedRun struct {
	parent    index.Parent
	keys, who int
}

type ofRank[T any] struct {
	rank int
	row  T
}

func (f *feed) reset() {
	f.size, f.runs, f.keys, f.who = 0, f.runs[:0], f.keys[:0], f.who[:0]
	f.hashes, f.orphans = f.hashes[:0], f.orphans[:0]
}

// fill copies a chunk, and sends whenever there is enough.
func (f *feed) fill(c chunk, send func() error) (err error) {
	add := func() {
		if f.size++; f.size >= feedAtOnce && err == nil {
			err = send()
		}
	}
	c.Runs(func(p index.Parent, keys []index.Key, who []index.Holding) {
		for len(keys) > 0 && err == nil {
			n := min(len(keys), feedAtOnce-f.size)
			f.keys = append(f.keys, keys[:n]...)
			f.who = append(f.who, who...)
			f.runs = append(f.runs, feedRun{p, len(f.keys), len(f.who)})
			p, keys = index.After(keys[n-1]), keys[n:]
			f.size += n - 1
			add()
		}
	})
	c.Hashes(func(rank int, h snapshot.HashRow) {
		if err == nil {
			f.hashes = append(f.hashes, ofRank[snapshot.HashRow]{rank, h})
			add()
		}
	})
	c.Orphans(func(rank int, o snapshot.OrphanRow) {
		if err == nil {
			f.orphans = append(f.orphans, ofRank[snapshot.OrphanRow]{rank, o})
			add()
		}
	})
	if err == nil && f.size > 0 {
		err = send()
	}
	return err
}

// sort judges what is offered before anything of it is read.
func (g *graft) sort(p *Pump, offered []snapshot.VettedRank, accepted map[index.Rank]bool) (more bool) {
	have := map[index.Rank]*snapshot.VettedRank{}
	for i := range offered {
		have[offered[i].Rank] = &offered[i]
	}
	for i := range g.results {
		out := &g.results[i]
		r, v := p.ranks[out.Rank], have[out.Rank]
		switch {
		case r == nil || r.state.owed.Kind == 0 || r.state.owed.Epoch != out.Epoch:
		case v == nil || !g.about(p, r):
			out.Verdict = GraftUncovered
		default:
			out.Verdict, out.Reason = r.state.judge(v, out.Epoch)
			if out.Verdict == GraftGap {
				p.step(r, unspliced{out.Epoch})
			}
			accepted[out.Rank] = out.Verdict == Grafted
			if out.Verdict == Grafted {
				g.ranks = append(g.ranks, &scion{pumped: r, result: out})
			} else {
				delete(accepted, out.Rank)
			}
		}
	}
	return len(accepted) > 0
}

// about tells whether the section is of a rank's index.
func (g *graft) about(p *Pump, r *pumped) bool { return p.exportKey(r.ledger.section) == g.key }

// begin opens the restore for the ranks that are left, in the offer's order.
func (g *graft) begin(p *Pump, offered []snapshot.VettedRank) (more bool) {
	byRank := map[index.Rank]*scion{}
	for _, x := range g.ranks {
		byRank[x.pumped.Rank] = x
		x.result.Verdict = GraftUncovered // until the section is whole, and if it turns out not to have the rank
	}
	g.ranks = g.ranks[:0]
	ranks := make([]index.Rank, 0, len(offered))
	for _, v := range offered {
		x := byRank[v.Rank]
		if x == nil {
			return false // not retained as asked for: nothing is read of it
		}
		x.section = v
		g.ranks, ranks = append(g.ranks, x), append(ranks, v.Rank)
		g.section = x.pumped.ledger.section
	}
	if len(ranks) == 0 {
		return false
	}
	restore, err := g.section.Index.BeginRestore(ranks)
	if err != nil {
		for _, x := range g.ranks {
			x.result.Verdict, x.result.Reason = GraftRejected, ReasonTree
			p.step(x.pumped, refused{x.result.Epoch})
		}
		return false
	}
	g.restore = restore
	for i, x := range g.ranks {
		x.shadow = newShadow(g.section, x.pumped.Rank, restore.Holder(i), x.section.WalkedTo)
	}
	return true
}

// take restores a piece and tells whether more is wanted.
func (g *graft) take(p *Pump, f *feed) (more bool) {
	key, who := 0, 0
	for _, run := range f.runs {
		g.restore.AddRun(run.parent, f.keys[key:run.keys], f.who[who:run.who])
		key, who = run.keys, run.who
	}
	for _, h := range f.hashes {
		g.ranks[h.rank].shadow.restoreHash(h.row)
	}
	for _, o := range f.orphans {
		g.ranks[o.rank].shadow.restoreOrphan(o.row)
	}
	for _, x := range g.ranks {
		more = more || g.wanted(p, x)
	}
	return more
}

// wanted tells whether a rank still is owed what it was.
func (g *graft) wanted(p *Pump, x *scion) bool {
	o := &x.pumped.state.owed
	return p.ranks[x.pumped.Rank] == x.pumped && o.Kind != 0 && o.Epoch == x.result.Epoch
}

// end applies what was kept to the whole section, some of it at a time, and then makes it the ranks' state.
func (g *graft) end(p *Pump) (more bool) {
	budget := drainAtOnceBlocks
	now := p.opt.Now()
	for _, x := range g.ranks {
		if x.dead || !g.judge(p, x) {
			continue
		}
		s := x.pumped.state
		if x.at.Proof == ProofUnknown {
			x.at = s.graftedAt(&x.section)
		}
		for b := s.beyond(x.at.Seq); b != nil; b = s.beyond(x.at.Seq) {
			if budget <= 0 {
				return true
			}
			x.shadow.apply(now, b)
			x.at = applied(x.at, b)
			budget -= blocksOf(b)
		}
	}
	g.commit(p)
	return false
}

// judge looks again whether a section may become the rank's state, after all that came while it was read.
func (g *graft) judge(p *Pump, x *scion) bool {
	if !g.wanted(p, x) {
		x.result.Verdict, x.result.Reason, x.dead = GraftStale, ReasonNone, true
		return false
	}
	v, why := x.pumped.state.judge(&x.section, x.result.Epoch)
	x.result.Verdict, x.result.Reason = v, why
	x.dead = v != Grafted
	if v == GraftGap {
		p.step(x.pumped, unspliced{x.result.Epoch})
	}
	return !x.dead
}

// commit makes the section the state of all ranks that may have it.
func (g *graft) commit(p *Pump) {
	alive := make([]*scion, 0, len(g.ranks))
	for i, x := range g.ranks {
		if !x.dead {
			x.shadow.wanting = x.shadow.wanting || g.restore.Holder(i).Contradictions > 0
			alive = append(alive, x)
		}
	}
	if len(alive) == 0 {
		g.drop(p)
		return
	}
	g.restore.Retain(func(i int) bool { return !g.ranks[i].dead })
	holders := g.restore.Commit()
	g.restore = nil
	for i, x := range alive {
		s := x.pumped.state
		if again := s.graftedAt(&x.section).Proof; x.at.Proof == Proven && x.at.Seq == x.section.Cursor.Seq {
			x.at.Proof = again // what was held came after the first look
		}
		x.pumped.ledger.become(x.shadow, holders[i], s.cursor.Proof == ProofUnknown)
		p.step(x.pumped, grafted{&x.section, x.at})
		x.result.Cursor = x.at
	}
}

// drop forgets what was restored.
func (g *graft) drop(*Pump) (more bool) {
	if g.restore != nil {
		g.restore.Abort()
		g.restore, g.section.busy = nil, true
	}
	return false
}

// blocksOf is what a batch costs to apply.
func blocksOf(b *kvevents.Batch) int {
	n := 1
	for _, e := range b.Events {
		switch e := e.(type) {
		case *kvevents.Stored:
			n += len(e.Hashes)
		case *kvevents.Removed:
			n += len(e.Hashes)
		}
	}
	return n
}
