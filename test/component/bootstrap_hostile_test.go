package component

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"github.com/routerfleet/routerfleet/internal/signed"
	"github.com/routerfleet/routerfleet/router/app"
	"github.com/routerfleet/routerfleet/router/cursor"
	"github.com/routerfleet/routerfleet/router/index"
	"github.com/routerfleet/routerfleet/router/snapshot"
)

var stolenKey = signed.NewKey([]byte("peer-token-of-the-component-tests"))

func stolenKeys() []signed.Key { return []signed.Key{stolenKey} }

// impostor is a peer that has the fleet's token and says what it likes, in well-made bodies: it took a warm replica's
// snapshot, and gives to each engine what another one holds.
type impostor struct {
	key   snapshot.SectionKey
	index *index.Index
	rows  []snapshot.Row
}

var _ snapshot.Source = (*impostor)(nil)

func (p *impostor) Ready() bool              { return true }
func (p *impostor) SeedableSince() time.Time { return time.Now().Add(-time.Hour) }
func (p *impostor) Sections() []snapshot.SourceSection {
	return []snapshot.SourceSection{{Key: p.key, Index: p.index, Rows: slices.Clone(p.rows)}}
}

func (p *impostor) Row(_ snapshot.SectionKey, rank index.Rank) (snapshot.Row, bool) {
	for _, r := range p.rows {
		if r.Rank == rank {
			return r, true
		}
	}
	return snapshot.Row{}, false
}

func (p *impostor) Hashes(context.Context, snapshot.SectionKey, index.Rank, func([]snapshot.HashRow, []snapshot.OrphanRow) error) error {
	return nil
}

// newImpostor reads a warm router's snapshot of two engines, and may swap what they hold.
func newImpostor(t *testing.T, warm *kvRouter, swap bool) *impostor {
	t.Helper()
	transport := &http.Transport{DisableCompression: true}
	defer transport.CloseIdleConnections()
	client := snapshot.NewClient(snapshot.ClientOptions{Keys: stolenKeys, Transport: transport})
	peer, ctx := snapshot.Peer{Name: "victim", URL: warm.admin}, t.Context()
	table, err := client.Cursors(ctx, peer)
	if err != nil || len(table.Rows) != 2 {
		t.Fatalf("the warm router's cursors: %+v, %v", table, err)
	}
	p := &impostor{key: table.Rows[0].Section, index: index.New(index.Options{})}
	local := snapshot.LocalSection{Key: p.key}
	for i, row := range table.Rows {
		r := row.Row
		r.Rank, r.Exportable = index.Rank{Worker: fmt.Sprint("row ", i), DP: r.DP}, true
		p.rows = append(p.rows, r)
		local.Ranks = append(local.Ranks, snapshot.LocalRank{Rank: r.Rank, Worker: r.Worker, Cursor: r.Cursor})
	}
	body, err := client.Fetch(ctx, peer, snapshot.Want{Local: []snapshot.LocalSection{local}, MaxAge: snapshot.AnyAge})
	if err != nil {
		t.Fatal(err)
	}
	defer body.Close()
	v, err := body.Next(ctx)
	if err != nil || len(v.Ranks()) != 2 {
		t.Fatalf("the warm router's section: %v", err)
	}
	ranks := []index.Rank{v.Ranks()[0].Rank, v.Ranks()[1].Rank}
	if swap {
		slices.Reverse(ranks)
	}
	restore, err := p.index.BeginRestore(ranks)
	if err != nil {
		t.Fatal(err)
	}
	for {
		c, err := v.Next(ctx)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		c.Nodes(restore.Add)
	}
	for _, h := range restore.Commit() {
		p.describe(h)
	}
	return p
}

// describe has the row of a rank say what the index holds.
func (p *impostor) describe(h *index.Holder) {
	for i := range p.rows {
		if r := &p.rows[i]; r.Rank == h.Rank() {
			r.Life, r.Digest, r.DigestVersion, r.Blocks = h.State(), h.Digest, index.DigestVersion, 0
			for _, n := range h.Blocks {
				r.Blocks += n
			}
		}
	}
}

func (p *impostor) serve(t *testing.T, now func() time.Time) string {
	t.Helper()
	h := snapshot.NewHandler(p, snapshot.Options{Keys: stolenKeys, Now: now})
	s := httptest.NewServer(h)
	t.Cleanup(func() { s.CloseClientConnections(); s.Close(); h.Close() })
	return s.URL
}

// mutelyWarm starts a router and has engines that repeat nothing cache so many prompts through it, once they know of it.
func (f *sharingFleet) mutelyWarm(prompts int) *kvRouter {
	f.t.Helper()
	return f.mutelyWarmBy(f.options(), prompts)
}

func (f *sharingFleet) mutelyWarmBy(o app.Options, prompts int) *kvRouter {
	f.t.Helper()
	r := f.router(o, 0)
	for _, e := range f.engines {
		eventually(f.t, "an engine knows of the router", func() bool { return e.events.Subscriptions(0) > 0 })
	}
	for p := range prompts {
		r.ask(kvBody(1 + p))
	}
	r.caughtUp()
	return r
}

// lies are what rows say that no honest peer would.
var lies = map[string]func(p *impostor){
	"claims for unknown workers": func(p *impostor) {
		for i := range p.rows {
			p.rows[i].Worker = snapshot.Worker{PodUID: fmt.Sprint("nobody-", i), URL: fmt.Sprintf("http://192.0.2.%d:1", i+1)}
			p.rows[i].Cursor.Incarnation.Worker = p.rows[i].Worker.PodUID
		}
	},
	"an old incarnation with the highest cursor": func(p *impostor) {
		for i := range p.rows {
			p.rows[i].Cursor.Incarnation.Start = cursor.Start{Known: true, ID: "an earlier life"}
			p.rows[i].Cursor.Seq += 1_000_000
		}
	},
	"a cursor at the maximum": func(p *impostor) {
		for i := range p.rows {
			p.rows[i].Cursor.Seq, p.rows[i].WalkedTo = math.MaxInt64, math.MaxInt64
			p.rows[i].Cursor.Time += 1000
		}
	},
	"duplicate identities": func(p *impostor) {
		p.rows[1].Worker, p.rows[1].Cursor.Incarnation = p.rows[0].Worker, p.rows[0].Cursor.Incarnation
	},
	"a cursor that nothing proves": func(p *impostor) {
		for i := range p.rows {
			p.rows[i].Cursor.Proof = cursor.Untrusted
		}
	},
}

// plants counts the prompts of which a router knows something that no engine holds there.
func (r *kvRouter) plants(truth *kvRouter, prompts int) (planted int) {
	r.t.Helper()
	for p := range prompts {
		true, here := map[string]int{}, r.explain(kvBody(1+p, 7))
		for _, c := range truth.explain(kvBody(1+p, 7)).Candidates {
			true[c.Worker] = c.MatchedBlocks
		}
		for _, c := range here.Candidates {
			if c.MatchedBlocks > true[c.Worker] {
				planted++
			}
		}
	}
	return planted
}

// A peer that has the fleet's token plants nothing that its cursors do not cover.
func TestAPeerThatLiesInWellMadeBodiesPlantsNothing(t *testing.T) {
	for name, lie := range lies {
		t.Run(name, func(t *testing.T) {
			f := newSharingFleet(t, kvKinds[0], 2, mute)
			first := f.mutelyWarm(24)
			p := newImpostor(t, first, true)
			lie(p)
			liar := p.serve(t, nil)
			o := f.options(liar)
			o.KVBootstrapTimeoutMS = 1500
			alone := f.late(o)
			alone.awaitReady()
			if n := alone.plants(first, 24); n != 0 {
				t.Errorf("%d hits are planted: %+v", n, alone.bootstrap())
			}
			if s := alone.bootstrap(); warmed(s) {
				t.Errorf("it calls itself %v: %+v", s.Verdict, s.Ranks)
			}
			both := f.late(f.options(liar, first.admin))
			both.awaitReady()
			both.matches(first, 24)
		})
	}
}

// What rows say of their own size and digest is for progress and audits: nothing is made of it.
func TestTotalsThatLieNeitherBloatNorHinder(t *testing.T) {
	f := newSharingFleet(t, kvKinds[0], 2, mute)
	first := f.mutelyWarm(24)
	p := newImpostor(t, first, false)
	for i := range p.rows {
		p.rows[i].Blocks, p.rows[i].Digest = 1<<60, p.rows[i].Digest^1
	}
	r := f.late(f.options(p.serve(t, nil)))
	r.awaitReady()
	r.matches(first, 24)
}
