package simulation

import (
	"context"
	"fmt"
	"sync"

	"github.com/routerfleet/routerfleet/router/index"
	"github.com/routerfleet/routerfleet/router/policy"
	"github.com/routerfleet/routerfleet/test/enginesim"
	"github.com/routerfleet/routerfleet/test/enginesim/cache"
)

// Wire brings what engines cache to where the policy looks it up.
type Wire interface {
	policy.Directory
	// Start is called first, in the run's bubble. What it starts ends with ctx, and running waits for it.
	Start(ctx context.Context, running *sync.WaitGroup) error
	// Observer gives the ear of one engine; worker is its id. It is called before the first request.
	Observer(worker string) (enginesim.Observer, error)
	// Blocks gives how many blocks the index has for each engine, in the order of the observers. Nothing may be on
	// its way.
	Blocks() []int64
}

// Direct applies every step to one index at the instant it happens. Its zero value is not ready, see NewDirect.
type Direct struct {
	mu    sync.Mutex // the index has one writer; engines are many
	index *index.Index
	space *policy.Catalog
	known map[index.Rank]policy.Holding
	view  *policy.View

	holders []*index.Holder
}

// NewDirect returns a wire into an index of the doubles' own keys.
func NewDirect(model string, blockSize int) *Direct {
	x := index.New(index.Options{})
	return &Direct{
		index: x, known: map[index.Rank]policy.Holding{}, view: policy.NewView(nil),
		space: &policy.Catalog{
			Space:   policy.KeySpace{Model: model, Scheme: index.SchemeSGLang, BlockSize: blockSize},
			Matcher: x,
		},
	}
}

// View names every rank that an observer was made for.
func (d *Direct) View() *policy.View { return d.view }

// Start has nothing to start.
func (d *Direct) Start(context.Context, *sync.WaitGroup) error { return nil }

// Observer registers the worker's rank 0. Engines of several ranks need a wire that registers them all.
func (d *Direct) Observer(worker string) (enginesim.Observer, error) {
	rank := index.Rank{Worker: worker}
	holder, err := d.index.Rank(rank)
	if err != nil {
		return nil, fmt.Errorf("register %v: %w", rank, err)
	}
	d.known[rank] = policy.Holding{Catalog: d.space, Standing: policy.Steady{Trust: policy.Trusted, Life: 1}}
	d.view = policy.NewView(d.known)
	d.holders = append(d.holders, holder)
	return ear{d, holder}, nil
}

// Blocks counts the blocks of each engine.
func (d *Direct) Blocks() []int64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	var held []int64
	for _, h := range d.holders {
		held = append(held, h.Blocks[0])
	}
	return held
}

type ear struct {
	wire   *Direct
	holder *index.Holder
}

func (e ear) Observe(s enginesim.Step) {
	if s.Rank != 0 {
		panic("Direct knows one rank an engine")
	}
	e.wire.mu.Lock()
	defer e.wire.mu.Unlock()
	x := e.wire.index
	for _, c := range s.Changes {
		switch c := c.(type) {
		case enginesim.Stored:
			parent := index.Root
			if c.Parent != nil {
				parent = index.After(keyOf(*c.Parent))
			}
			if n := x.Store(e.holder, parent, keysOf(c.Keys), index.Device); n != len(c.Keys) {
				panic(fmt.Sprintf("the index took %d of %d blocks of an honest engine", n, len(c.Keys)))
			}
		case enginesim.Removed:
			x.Remove(e.holder, keysOf(c.Keys), index.AllTiers)
		case enginesim.Cleared:
			if err := x.Clear(e.holder); err != nil {
				panic(err)
			}
		}
	}
	x.Work(1000)
}

func keyOf(k cache.Key) index.Key { return index.Key(uint64(k.Int64())) }

func keysOf(keys []cache.Key) []index.Key {
	out := make([]index.Key, len(keys))
	for i, k := range keys {
		out[i] = keyOf(k)
	}
	return out
}
