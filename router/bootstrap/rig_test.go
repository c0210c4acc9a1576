package bootstrap

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/routerfleet/routerfleet/router/bootstrap/status"
	"github.com/routerfleet/routerfleet/router/cursor"
	"github.com/routerfleet/routerfleet/router/index"
	"github.com/routerfleet/routerfleet/router/ingest"
	"github.com/routerfleet/routerfleet/router/kvevents"
	"github.com/routerfleet/routerfleet/router/peers"
	"github.com/routerfleet/routerfleet/router/snapshot"
)

var section = snapshot.SectionKey{Model: "m", Scheme: index.SchemeSGLang, BlockSize: 16}

func workerOf(name string) snapshot.Worker {
	return snapshot.Worker{PodUID: "uid-" + name, URL: "http://" + name + ":8000"}
}

// life is a cursor of a worker's engine process.
func life(worker, start string, seq int64, proof cursor.Proof) cursor.Cursor {
	return cursor.Cursor{
		Incarnation: cursor.Incarnation{Worker: "uid-" + worker, Start: cursor.Start{Known: true, ID: start}},
		Seq:         seq, Time: kvevents.Stamp(1e18 + seq*int64(time.Second)), Hash: uint64(seq) + 1, Proof: proof,
	}
}

// fakePump keeps ranks as the pump publishes them, grafts what it is offered, and notes what it is told.
type fakePump struct {
	mu      sync.Mutex
	ranks   []Rank
	epochs  uint64
	changed chan struct{}
	told    []string
	// graft, when set, decides instead.
	graft func(p *fakePump, s Section, owed []ingest.RankEpoch) ([]ingest.GraftResult, error)
	// forgetful pumps give up what they are told to abandon.
	deaf bool
}

var _ Pump = (*fakePump)(nil)

func (p *fakePump) Changed() <-chan struct{} { return p.changed }

func (p *fakePump) Ranks() []Rank {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.ranks)
}

// change alters ranks under the lock and wakes the coordinator.
func (p *fakePump) change(f func()) {
	p.mu.Lock()
	f()
	p.mu.Unlock()
	select {
	case p.changed <- struct{}{}:
	default:
	}
}

func (p *fakePump) rank(worker string) *Rank {
	for i := range p.ranks {
		if p.ranks[i].Name == worker {
			return &p.ranks[i]
		}
	}
	return nil
}

// boot registers a pending rank. Its subscription stands unless connected is false.
func (p *fakePump) boot(worker string, connected bool) {
	p.change(func() {
		p.epochs++
		r := Rank{
			Rank: index.Rank{Worker: "uid-" + worker}, Name: worker, Worker: workerOf(worker), Section: section, Connected: connected,
			Cursor: cursor.Cursor{Incarnation: cursor.Incarnation{Worker: "uid-" + worker}},
			Owed:   &ingest.Owed{Epoch: p.epochs, Kind: ingest.OwedBoot, FirstHeld: ingest.NothingHeld, LateJoin: true},
		}
		if connected {
			r.Owed.Since = time.Now()
			r.Cursor.Incarnation.Start = cursor.Start{Known: true, ID: "p1"}
		}
		p.ranks = append(p.ranks, r)
	})
}

// follow registers a rank that has a state.
func (p *fakePump) follow(worker string, c cursor.Cursor, more ...func(*Rank)) {
	p.change(func() {
		r := Rank{
			Rank: index.Rank{Worker: "uid-" + worker}, Name: worker, Worker: workerOf(worker), Section: section, Connected: true,
			Following: true, Cursor: c, Life: 1, Digest: 7, DigestVersion: 1, Blocks: 10, Outcome: ingest.OutcomeFromOrigin,
		}
		for _, m := range more {
			m(&r)
		}
		p.ranks = append(p.ranks, r)
	})
}

// with changes one rank.
func (p *fakePump) with(worker string, f func(*Rank)) { p.change(func() { f(p.rank(worker)) }) }

func (p *fakePump) owe(worker string, kind ingest.OwedKind, more ...func(*ingest.Owed)) {
	p.with(worker, func(r *Rank) {
		p.epochs++
		r.Owed = &ingest.Owed{Epoch: p.epochs, Kind: kind, Cursor: r.Cursor, FirstHeld: ingest.NothingHeld}
		if kind != ingest.OwedHeal {
			r.Owed.Since = time.Now()
		}
		for _, m := range more {
			m(r.Owed)
		}
	})
}

func (p *fakePump) note(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.told = append(p.told, fmt.Sprintf(format, args...))
}

func (p *fakePump) Graft(_ context.Context, s Section, owed []ingest.RankEpoch) ([]ingest.GraftResult, error) {
	if p.graft != nil {
		return p.graft(p, s, owed)
	}
	return p.take(s, owed), nil
}

// take grafts what is still owed under its epoch.
func (p *fakePump) take(s Section, owed []ingest.RankEpoch) (out []ingest.GraftResult) {
	p.change(func() {
		for _, o := range owed {
			result := ingest.GraftResult{RankEpoch: o, Verdict: ingest.GraftUncovered}
			at := slices.IndexFunc(p.ranks, func(r Rank) bool { return r.Rank == o.Rank })
			for _, v := range s.Ranks() {
				switch {
				case v.Rank != o.Rank:
				case at < 0, p.ranks[at].Owed == nil, p.ranks[at].Owed.Epoch != o.Epoch:
					result.Verdict = ingest.GraftStale
				default:
					r := &p.ranks[at]
					result.Verdict, result.Cursor = ingest.Grafted, v.Cursor
					r.Cursor, r.SeededFrom, r.Following, r.Owed, r.Outcome = v.Cursor, v.SeededFrom, true, nil, ingest.OutcomeWarm
					if v.Cursor.Proof == cursor.Origin {
						r.Cursor.Proof = cursor.Proven
					}
					r.Life++
					r.Blocks = v.Blocks
				}
			}
			p.told = append(p.told, fmt.Sprintf("graft %s from %s: %s", o.Rank.Worker, s.(*fakeSection).from, result.Verdict))
			out = append(out, result)
		}
	})
	return out
}

func (p *fakePump) Keep(_ context.Context, ranks []ingest.RankEpoch) error {
	p.note("keep %s", workers(ranks))
	p.change(func() {
		for _, k := range ranks {
			for i := range p.ranks {
				if r := &p.ranks[i]; r.Rank == k.Rank && r.Owed != nil && r.Owed.Epoch == k.Epoch {
					owed := *r.Owed
					owed.Since = time.Now()
					r.Owed = &owed
				}
			}
		}
	})
	return nil
}

func (p *fakePump) Abandon(_ context.Context, ranks []ingest.RankEpoch, why ingest.AbandonWhy) error {
	p.note("abandon %s: %s", workers(ranks), why)
	if p.deaf {
		return nil
	}
	p.change(func() {
		for _, k := range ranks {
			for i := range p.ranks {
				r := &p.ranks[i]
				if r.Rank != k.Rank || r.Owed == nil || r.Owed.Epoch != k.Epoch {
					continue
				}
				if r.boots() && r.Owed.Since.IsZero() && why != ingest.AbandonTimedOut {
					continue // H7
				}
				if !r.boots() {
					r.Owed = nil
					continue
				}
				r.Owed, r.Following, r.Outcome = nil, true, ingest.OutcomeAbandoned
				r.Cursor = cursor.Cursor{Incarnation: r.Cursor.Incarnation, Proof: cursor.Proven, Partial: true}
			}
		}
	})
	return nil
}

func (p *fakePump) Witness(_ context.Context, at ingest.RankEpoch, w cursor.Cursor, t ingest.Testimony) error {
	p.note("witness %s at %d: %d", at.Rank.Worker, w.Seq, t)
	return nil
}

func (p *fakePump) Suspect(_ context.Context, r index.Rank, at cursor.Cursor, how ingest.Suspicion) error {
	p.note("suspect %s at %d: %d", r.Worker, at.Seq, how)
	return nil
}

func (p *fakePump) Equal(_ context.Context, r index.Rank, at cursor.Cursor) error {
	p.note("equal %s at %d", r.Worker, at.Seq)
	return nil
}

func (p *fakePump) Behind(_ context.Context, r index.Rank, at, sibling cursor.Cursor) error {
	p.note("behind %s at %d of %d", r.Worker, at.Seq, sibling.Seq)
	return nil
}

func workers(ranks []ingest.RankEpoch) string {
	var out []string
	for _, r := range ranks {
		out = append(out, r.Rank.Worker)
	}
	slices.Sort(out)
	return fmt.Sprint(out)
}

// fakePeer is a sibling.
type fakePeer struct {
	ready bool
	since time.Time
	rows  []snapshot.TableRow
	empty []string
	// delay is how long it takes to answer; err is what it answers instead. fetchErr fails bodies alone.
	delay         time.Duration
	err, fetchErr error
	// hides are workers its bodies leave out although its table names them.
	hides []string
	// builds is how busy it is.
	builds int
	asked  int
	format int
	// wants are the fetches it served, and when.
	wants   []snapshot.Want
	wantsAt []time.Time
	// breaks has a body end before its end.
	breaks bool
}

func (f *fakePeer) table() *snapshot.Table {
	t := &snapshot.Table{Format: cmp.Or(f.format, 2), Ready: f.ready, SeedableSince: f.since, Builds: f.builds, Rows: slices.Clone(f.rows), Complete: true}
	for _, w := range f.empty {
		t.Empty = append(t.Empty, snapshot.TableRank{Section: section, Worker: workerOf(w)})
	}
	return t
}

// holds gives the peer a row of a rank.
func holds(worker string, c cursor.Cursor, more ...func(*snapshot.TableRow)) snapshot.TableRow {
	row := snapshot.TableRow{Section: section, Row: snapshot.Row{
		Worker: workerOf(worker), Cursor: c, Digest: 7, DigestVersion: 1, Blocks: 10, Exportable: true,
	}}
	for _, m := range more {
		m(&row)
	}
	return row
}

type fakeClient struct {
	mu    sync.Mutex
	peers map[string]*fakePeer
}

var _ Client = (*fakeClient)(nil)

// peer gives a sibling as it is now.
func (c *fakeClient) peer(id string) fakePeer {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := *c.peers[id]
	p.wants, p.wantsAt = slices.Clone(p.wants), slices.Clone(p.wantsAt)
	return p
}

func (c *fakeClient) set(id string, f func(*fakePeer)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f(c.peers[id])
}

func (c *fakeClient) wait(ctx context.Context, id string, count bool) (fakePeer, error) {
	c.mu.Lock()
	if c.peers[id] == nil {
		c.mu.Unlock()
		return fakePeer{}, errors.New("no such host")
	}
	if count {
		c.peers[id].asked++
	}
	p := *c.peers[id]
	c.mu.Unlock()
	if p.delay > 0 {
		select {
		case <-time.After(p.delay):
		case <-ctx.Done():
			return p, ctx.Err()
		}
	}
	return p, p.err
}

func (c *fakeClient) Cursors(ctx context.Context, p peers.Peer) (*snapshot.Table, error) {
	f, err := c.wait(ctx, p.ID, true)
	if err != nil {
		return nil, err
	}
	return f.table(), nil
}

func (c *fakeClient) Fetch(ctx context.Context, p peers.Peer, _ bool, w snapshot.Want) (Body, error) {
	f, err := c.wait(ctx, p.ID, false)
	if err = cmp.Or(err, f.fetchErr); err != nil {
		return nil, err
	}
	c.set(p.ID, func(f *fakePeer) { f.wants, f.wantsAt = append(f.wants, w), append(f.wantsAt, time.Now()) })
	b := &fakeBody{peer: f, table: f.table()}
	if !f.ready {
		return b, &snapshot.Rejection{Reason: snapshot.ProducerCold}
	}
	t := newTable(b.table, time.Time{}, time.Time{})
	for _, l := range w.Local {
		s := &fakeSection{key: l.Key, from: p.ID}
		for _, r := range l.Ranks {
			row := t.row(&Rank{Rank: r.Rank, Worker: r.Worker, Section: l.Key})
			if row != nil && !slices.ContainsFunc(f.hides, func(w string) bool { return "uid-"+w == r.Rank.Worker }) {
				s.ranks = append(s.ranks, snapshot.VettedRank{Rank: r.Rank, Cursor: row.Cursor, SeededFrom: p.ID, Blocks: row.Blocks})
			}
		}
		b.sections = append(b.sections, s)
	}
	return b, nil
}

type fakeBody struct {
	peer     fakePeer
	table    *snapshot.Table
	sections []*fakeSection
}

func (b *fakeBody) Table() *snapshot.Table               { return b.table }
func (b *fakeBody) Left() map[index.Rank]snapshot.Reason { return nil }
func (b *fakeBody) Progress() snapshot.Progress {
	return snapshot.Progress{Bytes: 1000, TotalBytes: 4000}
}
func (b *fakeBody) Close() error { return nil }

func (b *fakeBody) Next(context.Context) (Section, error) {
	if b.peer.breaks {
		return nil, io.ErrUnexpectedEOF
	}
	if len(b.sections) == 0 {
		return nil, io.EOF
	}
	s := b.sections[0]
	b.sections = b.sections[1:]
	return s, nil
}

type fakeSection struct {
	key   snapshot.SectionKey
	ranks []snapshot.VettedRank
	from  string
}

func (s *fakeSection) Key() snapshot.SectionKey     { return s.key }
func (s *fakeSection) Ranks() []snapshot.VettedRank { return s.ranks }

// rig is a coordinator among fakes.
type rig struct {
	*Coordinator
	t        *testing.T
	pump     *fakePump
	client   *fakeClient
	registry *peers.Registry
	log      *bytes.Buffer
	metrics  *prometheus.Registry
	complete bool
	mu       sync.Mutex
}

func (r *rig) setComplete(is bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.complete = is
}

// run has a coordinator with these siblings run inside a bubble.
func run(t *testing.T, siblings map[string]*fakePeer, test func(*rig), more ...func(*Options)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := &rig{t: t, complete: true, log: &bytes.Buffer{}, metrics: prometheus.NewRegistry(), registry: peers.NewRegistry(nil, true, nil)}
		r.pump = &fakePump{changed: make(chan struct{}, 1)}
		r.client = &fakeClient{peers: siblings}
		o := Options{
			Pump: r.pump, Client: r.client, Peers: r.registry, PodUID: "me", Metrics: r.metrics,
			Log:  slog.New(slog.NewTextHandler(r.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
			Rand: func() uint64 { return 1 },
			Complete: func() bool {
				r.mu.Lock()
				defer r.mu.Unlock()
				return r.complete
			},
		}
		for _, m := range more {
			m(&o)
		}
		var err error
		if r.Coordinator, err = New(o); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- r.Run(ctx) }()
		defer func() {
			cancel()
			if err := <-done; err != nil {
				t.Error(err)
			}
		}()
		test(r)
	})
}

// know tells who the siblings are.
func (r *rig) know(ids ...string) {
	var list []peers.Peer
	for _, id := range ids {
		list = append(list, peers.Peer{ID: id, UID: id, Name: id, URL: "http://" + id})
	}
	r.registry.Replace(list)
}

func (r *rig) after(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// told gives what the pump was told so far, and forgets it.
func (r *rig) told() []string {
	r.pump.mu.Lock()
	defer r.pump.mu.Unlock()
	out := r.pump.told
	r.pump.told = nil
	return out
}

func (r *rig) expect(when string, want ...string) {
	r.t.Helper()
	if got := r.told(); !slices.Equal(got, want) {
		r.t.Fatalf("%s: the pump was told %q, want %q\n%s", when, got, want, r.log)
	}
}

func (r *rig) status() status.Status {
	var s status.Status
	r.Fill(&s)
	return s
}

func (r *rig) expectVerdict(when string, want status.Verdict) {
	r.t.Helper()
	if got := r.status().Verdict; got != want {
		r.t.Fatalf("%s: verdict %s, want %s\n%s", when, got, want, r.log)
	}
}

// count reads a counter's series by its one label.
func (r *rig) count(name, label string) float64 {
	r.t.Helper()
	families, err := r.metrics.Gather()
	if err != nil {
		r.t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != "routerfleet_kv_"+name {
			continue
		}
		for _, m := range f.Metric {
			if len(m.Label) == 1 && m.Label[0].GetValue() == label {
				return m.Counter.GetValue()
			}
		}
	}
	r.t.Fatalf("there is no series %s{%s}", name, label)
	return 0
}
