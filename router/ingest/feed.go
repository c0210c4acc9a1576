package ingest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/routerfleet/routerfleet/router/index"
	"github.com/routerfleet/routerfleet/router/kvevents"
)

const (
	// DefaultRecheck is how often an engine whose events do not come is asked for its settings again.
	DefaultRecheck = 30 * time.Second
	// maxIntrospections bounds the engines that are asked at one time.
	maxIntrospections = 16
	// firstRecheck is the pause after the first question that failed; it doubles up to the recheck interval.
	firstRecheck = time.Second
)

// FeedOptions configure a Feed. Zero means the documented default.
type FeedOptions struct {
	// VLLMHash says that engines which advertise no events hash with sha256_cbor and the seed the request side knows:
	// their hashes are keys. Otherwise keys are made of tokens.
	VLLMHash bool
	// AllowForeignHosts is --allow-foreign-event-hosts.
	AllowForeignHosts bool
	// Recheck is how often an engine whose events do not come is asked again; default 30 s.
	Recheck time.Duration

	Pump         *Pump
	Engines      Engines
	Introspector Introspector
	// Dial opens event and replay connections; nil is a net.Dialer.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// Rand gives the redial jitter; nil is math/rand/v2.
	Rand func(n int64) int64
	// Log receives one line per transition; nil discards.
	Log *slog.Logger
	// Metrics registers the metrics of subscriptions; nil registers none.
	Metrics prometheus.Registerer
}

// Feed keeps one subscription for every rank of every engine, for as long as the engine is listed. Readiness is none of
// its business: an engine that is withdrawn keeps its subscriptions and its blocks (peer-bootstrap B15).
type Feed struct {
	opt    FeedOptions
	inbox  chan looked
	public atomic.Pointer[feedView]

	// What follows is Run's alone.
	followed map[string]*followed
	slots    chan struct{}
	wg       sync.WaitGroup
	ctx      context.Context
}

// followed is an engine with what is known of its events.
type followed struct {
	engine   Engine
	settings *kvevents.Settings // nil: no events, or not known yet
	section  SectionKey
	start    Start
	capacity int64 // tokens of a rank's cache; 0: not known
	problems []kvevents.Problem
	subs     []*subscription
	epochs   map[int32]*atomic.Uint64
	asking   bool
	askAt    time.Time
	pause    time.Duration
	collides bool
	// looked says that it was asked where it is now, if only in vain.
	looked bool
}

// looked is what came of an introspection.
type looked struct {
	id, url string
	facts   Facts
	err     error
}

// feedView is what readers see.
type feedView struct {
	problems []kvevents.Problem
	subs     []*subscription
	looked   map[string]bool
}

// NewFeed checks the options and gives a feed. Nothing is asked before Run.
func NewFeed(o FeedOptions) (*Feed, error) {
	if o.Pump == nil || o.Engines == nil || o.Introspector == nil {
		return nil, errors.New("ingest: a feed needs a pump, the engines and an introspector")
	}
	if o.Recheck <= 0 {
		o.Recheck = DefaultRecheck
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	f := &Feed{opt: o, inbox: make(chan looked, 16), followed: map[string]*followed{}, slots: make(chan struct{}, maxIntrospections)}
	f.public.Store(&feedView{})
	if o.Metrics != nil {
		if err := o.Metrics.Register(newFeedCollector(f)); err != nil {
			return nil, fmt.Errorf("ingest: register metrics: %w", err)
		}
	}
	return f, nil
}

// Run follows the engines until ctx ends, and returns nil then, with every goroutine it started gone. The pump must run.
// Call it once.
func (f *Feed) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	f.ctx = ctx
	defer f.wg.Wait()
	defer f.stopAll()
	defer cancel()
	ticker := time.NewTicker(tickEvery)
	defer ticker.Stop()
	for {
		changed := f.opt.Engines.Changed()
		if err := f.reconcile(f.opt.Engines.Engines()); err != nil {
			return f.ended(err)
		}
		f.askDue(time.Now())
		f.publish()
		select {
		case <-ctx.Done():
			return nil
		case <-changed:
		case <-ticker.C:
		case l := <-f.inbox:
			if err := f.learned(l, time.Now()); err != nil {
				return f.ended(err)
			}
		}
	}
}

// ended tells a pump that stopped from an end that was asked for.
func (f *Feed) ended(err error) error {
	if f.ctx.Err() != nil {
		return nil
	}
	return fmt.Errorf("ingest: feed the pump: %w", err)
}

func (f *Feed) stopAll() {
	for _, e := range f.followed {
		e.stop()
	}
}

// reconcile takes over the list: new engines are followed, others forgotten. An error means that the pump is gone.
func (f *Feed) reconcile(list []Engine) error {
	there := make(map[string]bool, len(list))
	for _, e := range list {
		there[e.ID] = true
		known := f.followed[e.ID]
		if known == nil {
			known = &followed{epochs: map[int32]*atomic.Uint64{}}
			f.followed[e.ID] = known
		}
		if known.differs(e) {
			known.askAt, known.pause = time.Time{}, 0
		}
		known.engine = e
	}
	gone := false
	for id, known := range f.followed {
		if !there[id] {
			if err := f.forget(known); err != nil {
				return err
			}
			delete(f.followed, id)
			gone = true
		}
	}
	if gone {
		return f.untangle(nil)
	}
	return nil
}

// differs tells whether an engine must be asked again.
func (e *followed) differs(now Engine) bool {
	return e.engine.URL != now.URL || e.engine.Model != now.Model || !reflect.DeepEqual(e.engine.Configured, now.Configured)
}

// forget ends an engine's subscriptions and drops its blocks.
func (f *Feed) forget(e *followed) error {
	if len(e.subs) > 0 {
		f.opt.Log.Info("events of a worker are no longer followed", "worker", e.engine.Name, "ranks", len(e.subs))
	}
	e.stop()
	for _, s := range e.subs {
		if err := f.opt.Pump.Forget(f.ctx, s.rank); err != nil {
			return err
		}
	}
	e.subs, e.settings = nil, nil
	return nil
}

func (e *followed) stop() {
	for _, s := range e.subs {
		s.stop()
	}
}

// askDue asks the engines that are new, changed, or whose events do not come.
func (f *Feed) askDue(now time.Time) {
	for _, e := range f.followed {
		if e.asking || e.engine.Model == "" || now.Before(e.askAt) || e.flows() && !e.askAt.IsZero() {
			continue
		}
		e.asking = true
		engine := e.engine
		f.wg.Go(func() {
			select {
			case f.slots <- struct{}{}:
				defer func() { <-f.slots }()
			case <-f.ctx.Done():
				return
			}
			facts, err := f.opt.Introspector.Introspect(f.ctx, engine)
			f.tell(f.ctx, looked{engine.ID, engine.URL, facts, err})
		})
	}
}

// flows tells whether every subscription of an engine is up.
func (e *followed) flows() bool {
	if len(e.subs) == 0 {
		return false
	}
	for _, s := range e.subs {
		if s.sub.State().Phase != kvevents.Up {
			return false
		}
	}
	return true
}

func (f *Feed) tell(ctx context.Context, l looked) {
	select {
	case f.inbox <- l:
	case <-f.ctx.Done():
	case <-ctx.Done():
	}
}

// learned takes what an engine says of itself.
func (f *Feed) learned(l looked, now time.Time) error {
	e := f.followed[l.id]
	if e == nil {
		return nil
	}
	e.asking = false
	if e.engine.URL != l.url || e.engine.Model == "" {
		return nil // it moved meanwhile, and is asked again
	}
	e.looked = true
	if l.err != nil {
		e.pause = min(max(2*e.pause, firstRecheck), f.opt.Recheck)
		e.askAt = now.Add(e.pause)
		return nil
	}
	e.pause, e.askAt = 0, now.Add(f.opt.Recheck)
	settings, problems := kvevents.Resolve(kvevents.Candidate{
		Worker: e.engine.Name, Host: e.engine.Host, Addresses: e.engine.Addresses, Info: l.facts.Info,
		Configured: e.engine.Configured, AllowForeignHosts: f.opt.AllowForeignHosts,
	})
	if l.facts.Problem != "" {
		problems = append(problems, kvevents.Problem{Code: kvevents.CodeSettings, Worker: e.engine.Name, Message: l.facts.Problem})
	}
	e.problems = append(problems, e.engine.Problems...)
	e.start = l.facts.Start
	if err := f.resize(e, l.facts.Info.CapacityTokens); err != nil {
		return err
	}
	return f.settle(e, settings, f.sectionOf(e.engine, l.facts.Info, settings))
}

// resize tells of another capacity than the engine's ranks were registered with.
func (f *Feed) resize(e *followed, tokens int64) error {
	if e.capacity == tokens {
		return nil
	}
	e.capacity = tokens
	for _, s := range e.subs {
		if err := f.opt.Pump.Resize(f.ctx, s.rank, tokens); err != nil {
			return err
		}
	}
	return nil
}

func (f *Feed) sectionOf(e Engine, info kvevents.ServerInfo, s *kvevents.Settings) SectionKey {
	if s == nil {
		return SectionKey{}
	}
	k := SectionKey{Model: e.Model, Scheme: index.SchemeTokens, BlockSize: s.BlockSize}
	switch {
	case info.Events != nil: // only SGLang advertises its events
		k.Scheme, k.Bigram = index.SchemeSGLang, s.Bigram
	case f.opt.VLLMHash:
		k.Scheme = index.SchemeVLLM
	}
	return k
}

// settle has an engine's subscriptions follow its settings, and those of the engines it collides with or no longer does.
func (f *Feed) settle(e *followed, settings *kvevents.Settings, section SectionKey) error {
	before := e.settings
	changed := e.section != section || (before == nil) != (settings == nil) || before != nil && *before != *settings ||
		settings != nil && !e.collides && len(e.subs) < settings.DPSize // there was no index for one
	e.settings, e.section = settings, section
	if !changed {
		return nil
	}
	return f.untangle(e)
}

// untangle subscribes to an engine anew, and to those that collide with another now or no longer do.
func (f *Feed) untangle(e *followed) error {
	all := map[string]*kvevents.Settings{}
	for _, other := range f.followed {
		all[other.engine.Name] = other.settings
	}
	colliding := map[string]bool{}
	for _, p := range kvevents.Collisions(all) {
		colliding[p.Worker] = true
	}
	for _, other := range f.followed {
		now := colliding[other.engine.Name]
		if other != e && other.collides == now {
			continue
		}
		other.collides = now
		if err := f.resubscribe(other); err != nil {
			return err
		}
	}
	return nil
}

// resubscribe ends an engine's subscriptions and begins those its settings ask for. Ranks that remain are relocated.
func (f *Feed) resubscribe(e *followed) error {
	e.stop()
	old := map[index.Rank]bool{}
	for _, s := range e.subs {
		old[s.rank] = true
	}
	e.subs = nil
	if e.settings != nil && !e.collides {
		for dp := range int32(e.settings.DPSize) {
			s, err := f.subscribe(e, dp, old)
			if err != nil {
				return err
			}
			if s != nil {
				e.subs = append(e.subs, s)
				delete(old, s.rank)
			}
		}
		f.opt.Log.Info("events of a worker are followed", "worker", e.engine.Name, "ranks", len(e.subs),
			"section", e.section.String(), "replays", e.settings.ReplayPort != 0)
	}
	for r := range old {
		if err := f.opt.Pump.Forget(f.ctx, r); err != nil {
			return err
		}
	}
	return nil
}

// subscribe registers a rank, then begins its subscription: the first batch must find it there. nil without an error
// means that there is no index for the rank; that is a problem, but not the pump's end.
func (f *Feed) subscribe(e *followed, dp int32, old map[index.Rank]bool) (*subscription, error) {
	if e.epochs[dp] == nil {
		e.epochs[dp] = new(atomic.Uint64)
	}
	s := &subscription{
		feed: f, engine: e.engine, settings: *e.settings, rank: index.Rank{Worker: e.engine.ID, DP: dp},
		decoder: kvevents.DecoderOptions{Scheme: e.section.Scheme, Seed: f.opt.Pump.opt.Seed}, last: e.epochs[dp],
	}
	r := Registration{
		Rank: s.rank, Identity: e.engine.Identity, URL: e.engine.URL, Worker: e.engine.Name, Section: e.section,
		Start: e.start, Replays: e.settings.ReplayPort != 0, Link: s,
		CapacityTokens: e.capacity,
	}
	register := f.opt.Pump.Register
	if old[s.rank] {
		register = f.opt.Pump.Relocate
	}
	err := register(f.ctx, r)
	switch {
	case errors.Is(err, ErrStopped), f.ctx.Err() != nil:
		return nil, cmp.Or(err, context.Cause(f.ctx))
	case err != nil:
		e.problems = append(e.problems, kvevents.Problem{Code: kvevents.CodeSettings, Worker: e.engine.Name, Message: err.Error()})
		return nil, nil
	}
	return s, s.start(f.ctx)
}

// Looked tells whether an engine was asked for its events, if only in vain; if it publishes, its ranks are registered by
// then.
func (f *Feed) Looked(engine string) bool { return f.public.Load().looked[engine] }

// publish makes problems and subscriptions visible.
func (f *Feed) publish() {
	v := &feedView{looked: make(map[string]bool, len(f.followed))}
	settings := map[string]*kvevents.Settings{}
	for _, id := range slices.Sorted(maps.Keys(f.followed)) {
		e := f.followed[id]
		v.problems = append(v.problems, e.problems...)
		v.subs = append(v.subs, e.subs...)
		v.looked[id] = e.looked
		settings[e.engine.Name] = e.settings
	}
	v.problems = append(v.problems, kvevents.Collisions(settings)...)
	f.public.Store(v)
}
