package app

import (
	"context"
	"net/http"
	"time"

	"github.com/routerfleet/routerfleet/router/index"
	"github.com/routerfleet/routerfleet/router/ingest"
	"github.com/routerfleet/routerfleet/router/policy"
	"github.com/routerfleet/routerfleet/router/proxy"
)

// events is what follows the engines' caches.
type events struct {
	pump *ingest.Pump
	feed *ingest.Feed
	seed index.Seed
	// transport carries the feed's questions to engines.
	transport *http.Transport
}

// makeEvents leaves a.events nil when nobody would use what they tell.
func (a *App) makeEvents() error {
	if !a.opts.followsEvents() {
		return nil
	}
	seed, err := hashSeed(a.opts.HashSeedFile, a.log)
	if err != nil {
		return err
	}
	e := &events{seed: seed, transport: &http.Transport{
		MaxIdleConnsPerHost: 1, IdleConnTimeout: 30 * time.Second, DisableCompression: true, Proxy: nil,
	}}
	e.pump, err = ingest.New(ingest.Options{
		MaxBlocks: indexBlocks(a.opts.IndexMaxBlocks), Seed: seed, Bootstrap: a.opts.asksPeers(), Log: a.log, Metrics: a.registry,
	})
	if err != nil {
		return err
	}
	e.feed, err = ingest.NewFeed(ingest.FeedOptions{
		VLLMHash: a.opts.KVEventsHashAlgorithm == hashSHA256CBOR, AllowForeignHosts: a.opts.AllowForeignHosts,
		Pump: e.pump, Engines: engines{a.workers, a.opts.configured()}, Introspector: ingest.NewHTTPIntrospector(e.transport),
		Log: a.log, Metrics: a.registry,
	})
	if err != nil {
		return err
	}
	a.events = e
	return nil
}

// follow runs the feed and leaves no connection behind.
func (e *events) follow(ctx context.Context) error {
	defer e.transport.CloseIdleConnections()
	return e.feed.Run(ctx)
}

// policyOptions join the policy with what the events tell.
func (a *App) policyOptions() policy.Options {
	knobs := a.opts.knobs()
	o := policy.Options{Knobs: &knobs, Registerer: a.registry}
	if a.events != nil {
		o.Directory = NewDirectory(a.events.pump, a.opts.matchMode())
		o.Suspicions = a.events.pump
	}
	return o
}

// keyOptions say how the proxy makes the keys that the indexes are asked for.
func (a *App) keyOptions() proxy.KeyOptions {
	if a.events == nil {
		return proxy.KeyOptions{}
	}
	pump, t := a.events.pump, a.tokenization
	return proxy.KeyOptions{
		Wanted: func() bool { return len(pump.View().Ranks()) > 0 },
		Seed:   a.events.seed, HashSeed: a.opts.KVEventsHashSeed,
		Readers: t.readers, Chain: t.chain(), Parity: t.watch,
	}
}
