package app

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/routerfleet/routerfleet/router/bootstrap/status"
	"github.com/routerfleet/routerfleet/router/index"
	"github.com/routerfleet/routerfleet/router/ingest"
	"github.com/routerfleet/routerfleet/router/kvevents"
	"github.com/routerfleet/routerfleet/router/proxy"
	"github.com/routerfleet/routerfleet/router/tokens/chain"
	"github.com/routerfleet/routerfleet/router/tokens/chat"
	"github.com/routerfleet/routerfleet/router/tokens/model"
	"github.com/routerfleet/routerfleet/router/tokens/parity"
	"github.com/routerfleet/routerfleet/router/tokens/remote"
	"github.com/routerfleet/routerfleet/router/workers"
)

// tokenization is what turns prompts of text into tokens. It is there when an index could use them.
type tokenization struct {
	pump    *ingest.Pump
	workers *workers.Registry

	// models are those with files of their own, by name; every is for all others, nil without one.
	models map[string]*model.Model
	every  *model.Model

	client    *remote.Client
	watch     *parity.Watch
	transport *http.Transport
	asking    bool // requests may ask engines

	mu      sync.Mutex // held to derive
	derived atomic.Pointer[derivedReaders]
}

// derivedReaders are who reads prompts, by model, as of two views.
type derivedReaders struct {
	view     *ingest.View
	snapshot *workers.Snapshot
	byModel  map[string][]proxy.Reader
	engines  []parity.Engine
}

// makeTokenization reads the models' files, whose faults are to be known at the start, and leaves a.tokenization nil when
// nobody would use tokens.
func (a *App) makeTokenization() error {
	t := &tokenization{workers: a.workers, models: map[string]*model.Model{}, asking: *a.opts.EngineTokenize}
	if err := t.load(a); err != nil {
		return err
	}
	if a.events == nil {
		return nil
	}
	t.pump = a.events.pump
	// As many idle connections as questions may be under way at one engine in ordinary times.
	t.transport = &http.Transport{MaxIdleConnsPerHost: 8, IdleConnTimeout: 60 * time.Second, DisableCompression: true, Proxy: nil}
	var err error
	t.client, err = remote.New(remote.Options{
		Timeout: time.Duration(a.opts.EngineTokenizeTimeout) * time.Millisecond, CacheBytes: a.opts.EngineTokenizeCacheMB << 20,
		Transport: t.transport, Registerer: a.registry,
	})
	if err != nil {
		return err
	}
	t.watch, err = parity.New(parity.Options{
		Encoder: t.encoder, Engines: t.engines, Changed: a.workers.Changed, Asker: t.client, Log: a.log, Metrics: a.registry,
	})
	if err != nil {
		return err
	}
	a.tokenization = t
	return nil
}

// load reads the files that the options and the models file name, each once.
func (t *tokenization) load(a *App) error {
	read := map[model.Files]*model.Model{}
	get := func(f model.Files, where string) (*model.Model, error) {
		if m := read[f]; m != nil {
			return m, nil
		}
		began := time.Now()
		m, err := model.Load(f)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", where, err)
		}
		a.log.Info("tokenizer loaded", "path", f.Path, "chats", m.Chats(), "took", time.Since(began).Round(time.Millisecond))
		read[f] = m
		return m, nil
	}
	var err error
	if a.opts.TokenizerPath != "" {
		f := model.Files{Path: a.opts.TokenizerPath, ChatTemplate: a.opts.ChatTemplate, Kwargs: a.opts.DefaultKwargs}
		if t.every, err = get(f, "--tokenizer-path"); err != nil {
			return err
		}
	}
	for _, spec := range a.models.Specs() {
		files := a.models.Tokenizer(spec.Name)
		if files.Path == "" {
			continue
		}
		f := model.Files{Path: files.Path, ChatTemplate: files.ChatTemplate, Kwargs: a.opts.DefaultKwargs}
		if t.models[spec.Name], err = get(f, fmt.Sprintf("--models-file: the tokenizer of model %q", spec.Name)); err != nil {
			return err
		}
	}
	return nil
}

// of gives a model's own files, nil without.
func (t *tokenization) of(name string) *model.Model {
	if m := t.models[name]; m != nil {
		return m
	}
	return t.every
}

// own and encoder are of for those who take an interface: a nil pointer in one is not nil.
func (t *tokenization) own(name string) chain.OwnWay {
	if m := t.of(name); m != nil {
		return m
	}
	return nil
}

func (t *tokenization) encoder(name string) parity.Encoder {
	if m := t.of(name); m != nil {
		return m
	}
	return nil
}

// chain is the ways to tokens.
func (t *tokenization) chain() *chain.Chain {
	c := &chain.Chain{Models: t.own, Trusted: t.watch.Book().Trusted}
	if t.asking {
		c.Asker = t.client
	}
	return c
}

// run compares tokens with the engines' and leaves no question and no connection behind.
func (t *tokenization) run(ctx context.Context) error {
	defer func() {
		t.client.Close()
		t.transport.CloseIdleConnections()
	}()
	return t.watch.Run(ctx)
}

// readers lists who reads a model's prompts and has blocks in an index.
func (t *tokenization) readers(model string) []proxy.Reader { return t.now().byModel[model] }

func (t *tokenization) engines() []parity.Engine { return t.now().engines }

// now gives the same pointer until ranks or workers change.
func (t *tokenization) now() *derivedReaders {
	view, snapshot := t.pump.View(), t.workers.Snapshot()
	if known := t.derived.Load(); known != nil && known.view == view && known.snapshot == snapshot {
		return known
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if known := t.derived.Load(); known != nil && known.view == view && known.snapshot == snapshot {
		return known
	}
	next := derive(view, snapshot)
	t.derived.Store(next)
	return next
}

func derive(view *ingest.View, snapshot *workers.Snapshot) *derivedReaders {
	d := &derivedReaders{view: view, snapshot: snapshot, byModel: map[string][]proxy.Reader{}}
	byID := map[string]*workers.Worker{}
	for _, l := range snapshot.Workers() {
		byID[cmp.Or(l.Worker.UID(), string(l.Worker.ID()))] = l.Worker // as policy.IndexRank
	}
	seen := map[string]bool{}
	for _, r := range view.Ranks() {
		w := byID[r.Rank.Worker]
		if w == nil || seen[r.Rank.Worker] {
			continue
		}
		seen[r.Rank.Worker] = true
		e := parity.Engine{Worker: w.Name(), Model: r.Section.Key.Model, Engine: remote.Engine{
			ID: r.Rank.Worker, URL: w.URL().String(), APIKey: w.APIKey, Dialect: dialect(r.Section.Key.Scheme),
		}}
		d.engines = append(d.engines, e)
		for _, name := range names(w, e.Model) {
			d.byModel[name] = withEngine(d.byModel[name], e)
		}
	}
	return d
}

// names are those that requests may use for the model of a worker's blocks: engines may serve one under several.
func names(w *workers.Worker, model string) []string {
	list := []string{model}
	for _, m := range w.Models() {
		if m.Parent == "" && m.ID != model {
			list = append(list, m.ID)
		}
	}
	return list
}

// withEngine adds an engine to the readers of its dialect.
func withEngine(readers []proxy.Reader, e parity.Engine) []proxy.Reader {
	for i := range readers {
		if readers[i].Dialect == e.Dialect {
			readers[i].Engines = append(readers[i].Engines, e)
			return readers
		}
	}
	return append(readers, proxy.Reader{Dialect: e.Dialect, Engines: []parity.Engine{e}})
}

// dialect is how engines read requests whose blocks are hashed by a scheme.
func dialect(s index.Scheme) chat.Dialect {
	if s == index.SchemeSGLang {
		return chat.SGLang
	}
	return chat.VLLM
}

// tokenProblems are the engines whose tokens are not the router's.
func (a *App) tokenProblems() []kvevents.Problem {
	if a.tokenization == nil {
		return nil
	}
	var list []kvevents.Problem
	for _, p := range a.tokenization.watch.Book().Problems() {
		list = append(list, kvevents.Problem{Code: string(status.CodeTokenParity), Worker: p.Worker, Message: p.Message})
	}
	return list
}
