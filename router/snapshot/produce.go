package snapshot

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/routerfleet/routerfleet/router/cursor"
	"github.com/routerfleet/routerfleet/router/index"
)

// produce builds a body of all sections.
func produce(ctx context.Context, src Source) (*build, error) {
	b := &build{head: bodyHead{ready: src.Ready(), since: src.SeedableSince()}}
	sections := src.Sections()
	if len(sections) > maxSections {
		return nil, fmt.Errorf("build a snapshot: %d sections, more than %d", len(sections), maxSections)
	}
	some, rows := false, 0
	for i := range sections {
		if rows += len(sections[i].Rows); rows > maxRows {
			return nil, fmt.Errorf("build a snapshot: more than %d ranks, which no reader takes", maxRows)
		}
		p := newSectionBuild(src, &sections[i], i)
		if err := p.build(ctx); err != nil {
			return nil, fmt.Errorf("build a snapshot of %s: %w", sections[i].Key, err)
		}
		b.sections = append(b.sections, p.out)
		some = some || p.out.end != nil
	}
	b.head.ready = b.head.ready && some // a replica that has nothing to give is no source
	b.seal()
	return b, nil
}

var errTooMuch = errors.New("more blocks and carriers than a snapshot can name")

// sectionBuild makes one section.
type sectionBuild struct {
	src   Source
	from  *SourceSection
	out   builtSection
	ranks []index.Rank // the rows that are walked
	rows  []int        // their places in the table
	held  []uint64     // blocks walked of each
	walk  *index.Runs
	nodes nodeEncoder
	more  rowEncoder
	draft *draft // scheme tokens
	full  bool   // it has no room
}

func newSectionBuild(src Source, from *SourceSection, number int) *sectionBuild {
	p := &sectionBuild{src: src, from: from}
	p.out.key = from.Key
	p.out.maps = from.Key.Scheme == index.SchemeTokens
	p.nodes = nodeEncoder{section: number, names: p.out.maps, emit: p.keep}
	p.more = rowEncoder{section: number, emit: p.keep, totals: &p.out.totals}
	return p
}

// keep takes a frame into the build.
func (p *sectionBuild) keep(frame []byte) error {
	p.out.frames = append(p.out.frames, bytes.Clone(frame))
	return nil
}

func (p *sectionBuild) build(ctx context.Context) error {
	p.choose(p.from.Rows)
	if len(p.ranks) == 0 {
		return nil
	}
	p.walk = p.from.Index.Runs(p.ranks, index.RunOptions{})
	p.nodes.rows = p.rows
	p.held = make([]uint64, len(p.ranks))
	if p.out.maps {
		p.draft = newDraft(len(p.ranks))
	}
	for more := true; more; {
		if err := ctx.Err(); err != nil {
			return err
		}
		more = p.walk.Next(walkAtOnce, p.take)
		if p.full {
			return errTooMuch
		}
	}
	if p.out.maps {
		if err := p.name(ctx); err != nil {
			return err
		}
	}
	p.nodes.flush()
	if p.nodes.err != nil {
		return p.nodes.err
	}
	p.check()
	p.out.totals.add(p.nodes.totals)
	if p.out.exports() {
		p.out.end = p.out.totals.encode(frameEnd)
	} else {
		p.out.frames = nil
	}
	return nil
}

// choose takes the rows, and marks those that are walked. It is done before the walk: an event that is applied meanwhile
// is above the cursor here, whatever the walk sees of it.
func (p *sectionBuild) choose(rows []Row) {
	for _, r := range rows {
		r.WalkedTo = max(r.WalkedTo, r.Cursor.Seq)
		w := wireRow{Row: r}
		w.exported = r.begun() && r.Exportable && r.Blocks > 0 && r.Life != 0 && r.Cursor.Proof != cursor.Untrusted
		if w.exported {
			p.ranks, p.rows = append(p.ranks, r.Rank), append(p.rows, len(p.out.rows))
		}
		p.out.rows = append(p.out.rows, w)
	}
}

// take takes a run of the walk.
func (p *sectionBuild) take(r index.Run) {
	for _, w := range r.Who {
		p.held[w.Rank] += uint64(len(r.Keys))
	}
	if p.draft != nil {
		p.full = p.full || !p.draft.add(r)
		return
	}
	p.nodes.run(r.Parent, r.Keys, r.Set, r.Who, nil)
}

// check reads every walked row again. A rank whose life ended before, within or behind the walk is not exported: what was
// walked may be of another (H12). Its blocks stay in the chunks, where no reader takes them. The cursor it has now is how
// far the walk may have seen.
func (p *sectionBuild) check() {
	for i, at := range p.rows {
		w := &p.out.rows[at]
		now, ok := p.src.Row(p.from.Key, p.ranks[i])
		same := ok && now.begun() && now.Exportable && now.Life == w.Life && p.walk.Life(i) == w.Life
		if !same || now.Cursor.Seq < w.Cursor.Seq || cursor.Relate(w.Cursor, now.Cursor) == cursor.OtherLife || p.held[i] == 0 {
			w.exported = false
			continue
		}
		w.WalkedTo = max(w.WalkedTo, now.WalkedTo, now.Cursor.Seq)
		w.Cursor.Proof = w.Cursor.Proof.Weaker(now.Cursor.Proof)
		w.Cursor.Partial = w.Cursor.Partial || now.Cursor.Partial
	}
}
