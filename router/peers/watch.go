package peers

import (
	"context"
	"log/slog"

	discoveryclient "k8s.io/client-go/kubernetes/typed/discovery/v1"

	"github.com/routerfleet/routerfleet/internal/slicewatch"
)

// WatchOptions configure a Watch.
type WatchOptions struct {
	Client discoveryclient.EndpointSlicesGetter
	// Namespace is the replica's own: peers come from nowhere else.
	Namespace string
	// Selector is over the labels of slices, which are those of their Service:
	// kubernetes.io/service-name=<fleet>-peers.
	Selector string
	// Port is the name of the port to ask; empty is PortName.
	Port string
	Self Self
	Log  *slog.Logger
}

// Watch keeps a registry's peers those of the selected EndpointSlices.
type Watch struct {
	opt      WatchOptions
	registry *Registry
	slices   *slicewatch.Watch
	warned   bool
}

// NewWatch checks the options. Nothing is asked before Run.
func NewWatch(o WatchOptions, r *Registry) (*Watch, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Port == "" {
		o.Port = PortName
	}
	slices, err := slicewatch.New(slicewatch.Options{
		Name: "peers", Client: o.Client, Namespace: o.Namespace, Selector: o.Selector, Log: o.Log,
	})
	if err != nil {
		return nil, err
	}
	return &Watch{opt: o, registry: r, slices: slices}, nil
}

// Run watches until ctx ends, and returns nil then.
func (w *Watch) Run(ctx context.Context) error {
	if !w.opt.Self.Known() {
		w.opt.Log.Warn("this replica does not know its own name or address (POD_NAME, POD_UID, POD_IP): it will take itself for a peer")
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.slices.Run(ctx)
	}()
	defer func() { <-done }()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-w.slices.Changed():
			w.publish()
		}
	}
}

// publish hands on what the slices say, once there is a complete list.
func (w *Watch) publish() {
	w.registry.Fail(w.slices.Trouble())
	list, synced := w.slices.Slices()
	if !synced {
		return
	}
	if none := len(list) == 0; none != w.warned {
		w.warned = none
		if none {
			w.opt.Log.Warn("no EndpointSlice matches the peer selector: it is over the labels of Services, not of pods",
				"selector", w.opt.Selector, "namespace", w.opt.Namespace)
		}
	}
	w.registry.Replace(extract(list, w.opt.Self, w.opt.Port))
}
