package simulation

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/routerfleet/routerfleet/router/app"
	"github.com/routerfleet/routerfleet/router/index"
	"github.com/routerfleet/routerfleet/router/ingest"
	"github.com/routerfleet/routerfleet/router/kvevents"
	"github.com/routerfleet/routerfleet/router/policy"
	"github.com/routerfleet/routerfleet/test/data/traces"
	"github.com/routerfleet/routerfleet/test/enginesim"
	"github.com/routerfleet/routerfleet/test/enginesim/publish"
)

// Pump is the router's own way from an engine to the policy, sockets left out: each step is a batch in the bytes of a
// dialect, which the router's decoder reads and its pump applies; the policy sees what the pump publishes. Its zero value
// is not ready, see NewPump.
type Pump struct {
	dialect publish.Dialect
	section ingest.SectionKey
	mode    index.Mode
	// bootstrap says that siblings are asked.
	bootstrap bool

	ctx       context.Context // of the run
	pump      *ingest.Pump
	directory *app.Directory
	lines     []*line
}

var (
	_ Wire              = (*Pump)(nil)
	_ policy.Suspicions = (*Pump)(nil)
)

// NewPump returns a wire from engines that write a dialect. SGLang's hashes are the keys; of vLLM's, which mean nothing
// outside their engine, keys are made by the tokens scheme.
func NewPump(model string, blockSize int, dialect publish.Dialect) *Pump {
	k := ingest.SectionKey{Model: model, Scheme: index.SchemeSGLang, BlockSize: blockSize}
	if dialect.IsVLLM() {
		k.Scheme = index.SchemeTokens
	}
	return &Pump{dialect: dialect, section: k}
}

// Start runs the pump. Its channels belong to the bubble it is started in.
func (w *Pump) Start(ctx context.Context, running *sync.WaitGroup) error {
	pump, err := ingest.New(ingest.Options{Seed: seed, Bootstrap: w.bootstrap})
	if err != nil {
		return err
	}
	w.ctx, w.pump, w.directory = ctx, pump, app.NewDirectory(pump, w.mode)
	running.Go(func() {
		_ = pump.Run(ctx) // it ends with ctx and says nil
		for _, l := range w.lines {
			l.lane.Close()
		}
	})
	return nil
}

// View gives the ranks that are registered with the pump.
func (w *Pump) View() *policy.View { return w.directory.View() }

// Suspected tells the pump which ranks the policy doubts.
func (w *Pump) Suspected(rank index.Rank, life uint64, suspect bool, ratioPercent int) {
	w.pump.Suspected(rank, life, suspect, ratioPercent)
}

// Observer registers the worker's rank 0, connects it, and publishes what it observes.
func (w *Pump) Observer(worker string) (enginesim.Observer, error) {
	l := w.line(worker)
	publisher, err := publisherOf(w.dialect, worker, l)
	if err != nil {
		return nil, err
	}
	l.publisher = publisher
	return publisher, w.open(l, worker)
}

// line makes the subscription to a worker's rank 0.
func (w *Pump) line(worker string) *line {
	rank := index.Rank{Worker: worker}
	return &line{
		ctx: w.ctx, rank: rank, lane: w.pump.Inbox().Lane(rank),
		decoder: kvevents.NewDecoder(kvevents.DecoderOptions{Scheme: w.section.Scheme, Seed: seed}),
	}
}

// open registers a line's rank and connects it.
func (w *Pump) open(l *line, worker string) error {
	err := w.pump.Register(w.ctx, ingest.Registration{Rank: l.rank, Identity: worker, Worker: worker, Section: w.section, Start: oneLife, Link: l})
	if err != nil {
		return err
	}
	l.deliver(kvevents.Delivery{Epoch: epoch, Kind: kvevents.Opened})
	w.lines = append(w.lines, l)
	return nil
}

// publisherOf gives what turns a worker's steps into batches of a dialect.
func publisherOf(dialect publish.Dialect, worker string, sink publish.Sink) (*publish.Publisher, error) {
	o := publish.Options{Dialect: dialect, PageSize: traces.BlockSize, BufferSteps: 1, Sink: sink}
	if dialect.IsVLLM() {
		o.HashSeed = worker
	}
	return publish.New(o)
}

// Blocks counts the device blocks of each engine, as the pump has published them.
func (w *Pump) Blocks() []int64 {
	var held []int64
	for _, r := range w.pump.View().Ranks() { // sorted by worker, as the engines are named
		held = append(held, r.Status().Blocks[0])
	}
	return held
}

// oneLife is what engines say of their start: none restarts.
var oneLife = ingest.Start{Known: true, ID: "1"}

// epoch is that of the one connection of each line.
const epoch = 1

// line is the subscription to one rank and its link: a connection that stands from beginning to end.
type line struct {
	ctx       context.Context
	rank      index.Rank
	lane      *kvevents.Lane
	decoder   *kvevents.Decoder
	publisher *publish.Publisher
	// doubted counts what the pump asks for when it misses something.
	doubted atomic.Int64
}

var (
	_ publish.Sink = (*line)(nil)
	_ ingest.Link  = (*line)(nil)
)

// Publish decodes a batch and puts it into the pump's inbox, on the rank's goroutine.
func (l *line) Publish(_ int, m publish.Message) {
	l.deliver(kvevents.Delivery{Epoch: epoch, Kind: kvevents.Arrived, Batch: l.decoder.Decode(m.Seq, m.Payload)})
}

func (l *line) deliver(d kvevents.Delivery) {
	if err := l.lane.Deliver(l.ctx, d); err != nil && d.Batch != nil { // the run is over
		d.Batch.Release()
	}
}

// Restarted is not heard of: nobody restarts the engines of a run.
func (l *line) Restarted(rank int, _ bool) { panic(fmt.Sprintf("rank %d restarted", rank)) }

// Redial counts that the pump wants to.
func (l *line) Redial(uint64) { l.doubted.Add(1) }

// Replay counts that the pump asks for one. The rank is registered as one that repeats nothing.
func (l *line) Replay(_ context.Context, from int64) *kvevents.ReplayResult {
	l.doubted.Add(1)
	return &kvevents.ReplayResult{Start: from, Ending: kvevents.Torn}
}

// Start is the same always.
func (l *line) Start(context.Context) ingest.Start { return oneLife }
