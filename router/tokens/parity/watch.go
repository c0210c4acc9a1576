package parity

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/routerfleet/routerfleet/router/tokens/chat"
	"github.com/routerfleet/routerfleet/router/tokens/remote"
)

// Encoder is the router's own way to tokens; *model.Model is one.
type Encoder interface {
	Text(dst []uint32, text string, bare bool) ([]uint32, error)
	Chat(dst []uint32, body []byte, d chat.Dialect, day time.Time) ([]uint32, error)
}

// Asker asks an engine for its tokens; *remote.Client is one.
type Asker interface {
	Fresh(ctx context.Context, e remote.Engine, p remote.Prompt) ([]uint32, error)
}

// Engine is one to compare with.
type Engine struct {
	remote.Engine
	// Worker is its name, Model what it serves (no adapter).
	Worker, Model string
}

// Options of a Watch.
type Options struct {
	// Encoder gives a model's own encoder, nil without one. Required.
	Encoder func(model string) Encoder
	// Engines lists those there are now. Required. Changed is closed when they change; nil: nobody says.
	Engines func() []Engine
	Changed func() <-chan struct{}
	// Asker is required.
	Asker Asker
	// Interval is how often each engine is asked. Default 30 s: a wrong tokenizer is known within a minute.
	Interval time.Duration
	Log      *slog.Logger          // default: nothing is logged
	Metrics  prometheus.Registerer // default: nobody scrapes them
}

const (
	// DefaultInterval is that of Options.
	DefaultInterval = 30 * time.Second
	// sampleEvery is one of how many requests is compared.
	sampleEvery = 1000
	// maxSample bounds the prompts that are compared.
	maxSample = 256 << 10
	// askers is how many engines are asked at once.
	askers = 4
)

// Watch compares. Run is its life.
type Watch struct {
	opts Options
	book *Book

	mu      sync.Mutex // guards what follows
	asked   map[string]time.Time
	seen    int
	samples chan sample

	compared *prometheus.CounterVec // kind, source, result
}

// sample is a prompt that a client sent.
type sample struct {
	engine Engine
	kind   Kind
	prompt remote.Prompt
	ours   []uint32
}

// New checks the options and registers the metrics. It starts nothing.
func New(o Options) (*Watch, error) {
	if o.Encoder == nil || o.Engines == nil || o.Asker == nil || o.Interval < 0 {
		return nil, errors.New("parity options: an encoder, engines and an asker are required, and no interval may be negative")
	}
	if o.Interval == 0 {
		o.Interval = DefaultInterval
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Metrics == nil {
		o.Metrics = prometheus.NewRegistry()
	}
	w := &Watch{opts: o, book: NewBook(), asked: map[string]time.Time{}, samples: make(chan sample, 1)}
	w.compared = prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "routerfleet", Name: "token_parity_total",
		Help: "Comparisons of the router's tokens with an engine's, by kind of prompt, source (probe, sample, count, ids) and result."},
		[]string{"kind", "source", "result"})
	differing := prometheus.NewGaugeFunc(prometheus.GaugeOpts{Namespace: "routerfleet", Name: "token_parity_differing",
		Help: "Engines, by kind of prompt, whose tokens are not the router's now."}, func() float64 { _, _, n := w.book.Counts(); return float64(n) })
	if err := errors.Join(o.Metrics.Register(w.compared), o.Metrics.Register(differing)); err != nil {
		return nil, err
	}
	return w, nil
}

// Book gives the verdicts.
func (w *Watch) Book() *Book { return w.book }

// Run asks engines until its context ends.
func (w *Watch) Run(ctx context.Context) error {
	tick := time.NewTicker(max(w.opts.Interval/10, time.Millisecond))
	defer tick.Stop()
	for {
		var changed <-chan struct{}
		if w.opts.Changed != nil {
			changed = w.opts.Changed()
		}
		w.round(ctx)
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		case <-changed:
		case s := <-w.samples:
			w.compare(ctx, s)
		}
	}
}

// round asks the engines whose turn it is.
func (w *Watch) round(ctx context.Context) {
	engines := w.opts.Engines()
	known := make(map[string]bool, len(engines))
	for _, e := range engines {
		known[e.ID] = true
	}
	w.book.Keep(known)
	slots := make(chan struct{}, askers)
	var group sync.WaitGroup
	for _, e := range w.due(engines, known) {
		slots <- struct{}{}
		group.Go(func() {
			defer func() { <-slots }()
			w.probe(ctx, e)
		})
	}
	group.Wait()
}

// due picks the engines that were not asked for an interval.
func (w *Watch) due(engines []Engine, known map[string]bool) []Engine {
	w.mu.Lock()
	defer w.mu.Unlock()
	for id := range w.asked {
		if !known[id] {
			delete(w.asked, id)
		}
	}
	var list []Engine
	now := time.Now()
	for _, e := range engines {
		if last, ok := w.asked[e.ID]; ok && now.Sub(last) < w.opts.Interval || w.opts.Encoder(e.Model) == nil {
			continue
		}
		w.asked[e.ID] = now
		list = append(list, e)
	}
	return list
}

// probe compares the fixed prompts. Of one kind the first difference counts.
func (w *Watch) probe(ctx context.Context, e Engine) {
	encoder := w.opts.Encoder(e.Model)
	var result [kinds]*Evidence
	for _, p := range probes {
		if result[p.kind] != nil && result[p.kind].Difference != "" {
			continue
		}
		day := time.Now()
		ours, err := encode(encoder, p.prompt, e.Dialect, day)
		if err != nil {
			continue // the model's own files refuse this prompt, and so will the engine
		}
		prompt := p.prompt
		prompt.Model = e.Model
		theirs, err := w.opts.Asker.Fresh(ctx, e.Engine, prompt)
		if errors.Is(err, remote.ErrUnsupported) {
			continue
		}
		if err != nil {
			break // it does not answer; the next round asks again
		}
		found := Compare(ours, theirs)
		if found.Difference != "" && day.UTC().Day() != time.Now().UTC().Day() {
			continue // the day in the template was not the same
		}
		result[p.kind] = &found
	}
	for kind, found := range result {
		if found != nil {
			w.hear(e, Kind(kind), "probe", *found)
		}
	}
}

func encode(encoder Encoder, p remote.Prompt, d chat.Dialect, day time.Time) ([]uint32, error) {
	if p.Chat != nil {
		return encoder.Chat(nil, p.Chat, d, day)
	}
	return encoder.Text(nil, p.Text, p.Bare)
}

func (w *Watch) compare(ctx context.Context, s sample) {
	theirs, err := w.opts.Asker.Fresh(ctx, s.engine.Engine, s.prompt)
	if err == nil {
		w.hear(s.engine, s.kind, "sample", Compare(s.ours, theirs))
	}
}

// Sample takes one of some requests for a comparison: what the router made of a prompt that goes to an engine.
func (w *Watch) Sample(e Engine, kind Kind, p remote.Prompt, ours []uint32) bool {
	if len(p.Text)+len(p.Chat) > maxSample {
		return false
	}
	w.mu.Lock()
	w.seen++
	turn := w.seen%sampleEvery == 1
	w.mu.Unlock()
	if !turn {
		return false
	}
	select {
	case w.samples <- sample{e, kind, p, slices.Clone(ours)}:
		return true
	default:
		return false
	}
}

// Counted hears how many tokens an engine's answer says its prompt had; ours is how many the router made.
func (w *Watch) Counted(e Engine, kind Kind, ours, theirs int) {
	w.hear(e, kind, "count", CompareCounts(ours, theirs))
}

// Told hears the tokens that an engine's answer says its prompt had.
func (w *Watch) Told(e Engine, kind Kind, ours, theirs []uint32) {
	w.hear(e, kind, "ids", Compare(ours, theirs))
}

func (w *Watch) hear(e Engine, kind Kind, source string, found Evidence) {
	result := "equal"
	if found.Difference != "" {
		result = "differs"
	}
	w.compared.WithLabelValues(kind.String(), source, result).Inc()
	now, changed := w.book.Hear(Subject{Group{e.Model, e.Dialect, kind}, e.ID}, e.Worker, found)
	if !changed {
		return
	}
	if now == Differs {
		w.opts.Log.Warn("an engine makes other tokens than the router: its prompts are read another way", "worker", e.Worker,
			"model", e.Model, "kind", kind.String(), "difference", found.Difference)
		return
	}
	w.opts.Log.Info("the router makes an engine's tokens", "worker", e.Worker, "model", e.Model, "kind", kind.String())
}
