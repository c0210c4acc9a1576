package ingest

import (
	"context"
	"net/netip"

	"github.com/routerfleet/routerfleet/router/kvevents"
)

// Engine is a worker as the feed needs it.
type Engine struct {
	// ID is the worker's part of a rank's identity: the pod UID, or the static id (index.Rank.Worker).
	ID string
	// Identity is the worker's part of an incarnation: the pod UID, or the URL of a worker that is no pod.
	Identity string
	// Name is for people and metrics: namespace/pod, or the static id.
	Name string
	// URL is the engine's base URL, Host its host, Addresses the pod's own as far as they are known.
	URL, Host string
	Addresses []netip.Addr
	// Model names the index: the base model, whatever adapters are served. Empty while it is not known.
	Model string
	// Configured are event settings for an engine that advertises none; Problems what is wrong with them.
	Configured kvevents.Configured
	Problems   []kvevents.Problem
	// Container is the id of the engine's container where it is known: its start, if the engine names no better.
	Container string
	// APIKey gives the bearer the engine expects; nil or empty for none.
	APIKey func() string
}

// Engines lists the workers there are: all that are not forgotten, ready or not. A worker that is not listed any more is
// forgotten with all its blocks, so a list must never be shorter than the truth.
type Engines interface {
	Engines() []Engine
	// Changed gives a channel that is closed when the list changes. Take it before the list.
	Changed() <-chan struct{}
}

// Facts is what an engine says of itself.
type Facts struct {
	Info  kvevents.ServerInfo
	Start Start
	// Problem says what is wrong with what the engine says of its events; empty when nothing is.
	Problem string
}

// Introspector asks an engine. An error means that it did not answer: ask again.
type Introspector interface {
	Introspect(ctx context.Context, e Engine) (Facts, error)
}
