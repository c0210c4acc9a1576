package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/routerfleet/routerfleet/internal/signed"
	"github.com/routerfleet/routerfleet/router/models"
	"github.com/routerfleet/routerfleet/router/policy"
	"github.com/routerfleet/routerfleet/router/proxy"
	"github.com/routerfleet/routerfleet/router/telemetry"
	"github.com/routerfleet/routerfleet/router/workers"
)

// App is one router. New makes it, Run is its life.
type App struct {
	opts     Options
	log      *slog.Logger
	registry *prometheus.Registry
	workers  *workers.Registry
	proxy    *proxy.Handler
	tokens   *signed.Dir // nil without --token-dir
	key      *keyFile    // nil without --worker-api-key-file
	models   *models.Set // nil: whatever the engines report
	events   *events     // nil when no events are followed
	sharing  *sharing    // nil when no events are followed
	// tokenization turns prompts of text into tokens; nil when no events are followed.
	tokenization *tokenization
	boot         *boot

	data, admin *listener
	ready       atomic.Bool // latched, see doc.go
	draining    atomic.Bool
	started     chan struct{}
	// failed receives the error of a part that ended by itself.
	failed chan error
}

// New checks the options, reads the files they name and allocates. It starts nothing and opens no listener.
func New(o Options) (*App, error) {
	if err := o.Validate(); err != nil {
		return nil, fmt.Errorf("options:\n%w", err)
	}
	o = o.withDefaults()
	log, err := telemetry.NewLogger(o.Log, o.LogLevel, o.LogFormat)
	if err != nil {
		return nil, err
	}
	a := &App{
		opts: o, log: log, registry: telemetry.NewRegistry("router", o.Version), boot: newBoot(o),
		started: make(chan struct{}), failed: make(chan error, 8),
	}
	for _, step := range []func() error{a.openFiles, a.makeWorkers, a.makeEvents, a.makeSharing, a.makeTokenization, a.makeProxy} {
		if err := step(); err != nil {
			return nil, err
		}
	}
	a.data = &listener{app: a, name: "data", address: address(o.Host, o.Port), server: newServer(a.closing(a.proxy), log)}
	a.admin = &listener{app: a, name: "admin", address: address(o.AdminHost, o.AdminPort), server: newServer(a.adminHandler(), log)}
	return a, nil
}

func address(host string, port int) string { return net.JoinHostPort(host, fmt.Sprint(port)) }

func (a *App) openFiles() (err error) {
	if a.opts.TokenDir != "" {
		if a.tokens, err = signed.OpenDir(a.opts.TokenDir, a.log); err != nil {
			return fmt.Errorf("--token-dir: %w", err)
		}
	}
	if a.opts.WorkerAPIKeyFile != "" {
		if a.key, err = openKeyFile(a.opts.WorkerAPIKeyFile, a.log); err != nil {
			return fmt.Errorf("--worker-api-key-file: %w", err)
		}
	}
	a.models, err = a.opts.readModels()
	return err
}

func (a *App) makeWorkers() error {
	o := workers.Options{
		Models:           a.models,
		BreakerThreshold: a.opts.CBThreshold,
		BreakerCoolDown:  seconds(a.opts.CBCoolDownSecs),
		Log:              a.log,
		Metrics:          a.registry,
	}
	if a.key != nil {
		o.APIKey = a.key.get
	}
	var err error
	if o.Static, err = a.opts.staticWorkers(); err != nil {
		return err
	}
	if a.opts.ServiceDiscovery {
		client, err := workers.NewSliceClient(a.opts.Kubeconfig)
		if err != nil {
			return fmt.Errorf("--service-discovery: %w", err)
		}
		o.Slices = &workers.SliceSource{
			Client: client, Namespace: a.opts.ServiceDiscoveryNamespace,
			Selector: strings.Join(a.opts.Selector, ","), Port: a.opts.WorkerPort,
		}
	}
	a.workers, err = workers.New(o)
	return err
}

func (a *App) makeProxy() error {
	p, err := policy.New(a.opts.Policy, a.policyOptions())
	if err != nil {
		return err
	}
	a.proxy, err = proxy.New(proxy.Options{
		RequestTimeout:    seconds(a.opts.RequestTimeoutSecs),
		StaleTimeout:      seconds(a.opts.StaleRequestTimeoutSecs),
		StreamIdleTimeout: seconds(a.opts.StreamIdleTimeoutSecs),
		MaxBodyBytes:      a.opts.MaxBodyBytes,
		MaxConcurrent:     a.opts.MaxConcurrentRequests,
		Workers:           a.workers,
		Policy:            p,
		Models:            a.models,
		Keys:              a.keyOptions(),
		Access:            a.access,
		Registerer:        a.registry,
		Logger:            a.log,
	})
	return err
}

// part is something that runs. start returns once it does; stop ends it, at the latest when its context ends.
type part struct {
	name  string
	start func(context.Context) error
	stop  func(context.Context) error
}

// parts is the start order; a failed start stops those before it, last first. Both listeners are open before anything
// is asked of the network, so that a taken port is found out at once: the feed asks engines, and there are none before
// the workers run. Siblings are looked for before engines, so that the first rank already finds them. The pump runs before
// who feeds it and ends after them, and after the last request.
func (a *App) parts() []part {
	var parts []part
	if a.sharing != nil {
		parts = append(parts, part{"snapshots", func(context.Context) error { return nil }, a.sharing.close})
	}
	parts = append(parts, part{"admin listener", a.admin.start, a.admin.stop})
	background := func(name string, run func(context.Context) error) {
		j := &job{app: a, name: name, run: run}
		parts = append(parts, part{name, j.start, j.stop})
	}
	if a.sharing.asks() {
		for _, w := range a.sharing.watches {
			background("peers", w.Run)
		}
	}
	if a.events != nil {
		background("pump", a.events.pump.Run)
		background("feed", a.events.follow)
	}
	if a.sharing.asks() {
		background("bootstrap", a.sharing.run)
	}
	parts = append(parts, part{"data listener", a.data.start, a.data.stop})
	if a.tokens != nil {
		background("tokens", func(ctx context.Context) error { return a.tokens.Run(ctx, 0) })
	}
	if a.key != nil {
		background("worker API key", a.key.run)
	}
	background("workers", a.workers.Run)
	if a.tokenization != nil {
		background("token parity", a.tokenization.run)
	}
	background("readiness", a.watchReadiness)
	return parts
}

// Run serves until the first signal, then shuts down in order; a second signal hurries. It returns nil after a proper
// shutdown, also a hurried one, and the reason otherwise. Call it once.
func (a *App) Run(signals <-chan os.Signal) error {
	limitMemory(a.log)
	parts := a.parts()
	if err := a.startAll(parts); err != nil {
		return err
	}
	a.log.Info("router started", "version", a.opts.Version, "data", a.data.addr().String(), "admin", a.admin.addr().String(),
		"static", len(a.opts.Worker), "discovery", a.opts.ServiceDiscovery, "policy", a.opts.Policy, "kvEvents", a.events != nil)
	close(a.started)
	var failure error
	select {
	case s := <-signals:
		a.log.Info("shutting down", "signal", s.String())
	case failure = <-a.failed:
		a.log.Error("shutting down: a part of the router ended by itself", "error", failure)
	}
	return errors.Join(failure, a.shutdown(signals, parts))
}

func (a *App) startAll(parts []part) error {
	for i, p := range parts {
		err := p.start(context.Background())
		if err == nil {
			continue
		}
		err = fmt.Errorf("start %s: %w", p.name, err)
		ctx, cancel := context.WithTimeout(context.Background(), stopBudget)
		defer cancel()
		for ; i > 0; i-- {
			if undo := parts[i-1].stop(ctx); undo != nil {
				err = errors.Join(err, fmt.Errorf("undo %s: %w", parts[i-1].name, undo))
			}
		}
		return err
	}
	return nil
}

// Started is closed when all parts run.
func (a *App) Started() <-chan struct{} { return a.started }

// Addrs returns the addresses of the data and admin listeners, once started.
func (a *App) Addrs() (data, admin net.Addr) { return a.data.addr(), a.admin.addr() }

// closing marks answers during shutdown as the last on their connection: clients take the next request elsewhere, and
// no request meets a connection that is being closed.
func (a *App) closing(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if a.draining.Load() {
			w.Header()["Connection"] = []string{"close"}
		}
		next.ServeHTTP(w, r)
	})
}

// readyEvery is how often a boot that is under way is asked whether it is over.
const readyEvery = 100 * time.Millisecond

// watchReadiness latches ready when the first request could be served, and the boot is over.
func (a *App) watchReadiness(ctx context.Context) error {
	ticker := time.NewTicker(readyEvery)
	defer ticker.Stop()
	for {
		changed := a.workers.Changed()
		s := a.workers.Snapshot()
		if s.Synced() {
			a.boot.settle(time.Now())
		}
		booted, _ := a.booted()
		if !a.ready.Load() && usable(s) && booted {
			if a.sharing.asks() {
				a.sharing.coordinator.Admit()
			}
			a.ready.Store(true)
			a.log.Info("ready", "workers", s.Counts().Usable(), "models", len(s.Models()))
		}
		tick := ticker.C
		if booted {
			tick = nil
		}
		select {
		case <-changed:
		case <-tick:
		case <-ctx.Done():
			return nil
		}
	}
}

// booted tells whether the index is as warm as it gets before the first request, and why not.
func (a *App) booted() (ok bool, why string) {
	if !a.sharing.asks() {
		return true, ""
	}
	return a.sharing.coordinator.Ready()
}

// usable says whether a request for some model would find a rank.
func usable(s *workers.Snapshot) bool {
	for _, m := range s.Models() {
		if ranks, _ := s.Pool(m.ID); len(ranks) > 0 {
			return true
		}
	}
	return false
}
