package chain

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"time"
)

const (
	// maxPromptBytes bounds what is tokenized of one request, however large the bodies are that a router takes: that of a
	// prompt of a million tokens.
	maxPromptBytes = 8 << 20
	// longPrompt is from how many bytes on a prompt needs a place in the gate. Reading a shorter one takes milliseconds,
	// whatever is in it.
	longPrompt = 128 << 10
	// longWait is how long it waits for a place: several long prompts that are no attack are through by then, and its
	// prefill takes far longer.
	longWait = 20 * time.Millisecond
)

// errBusy says that a long prompt found no place.
var errBusy = errors.New("chain: as many long prompts are read as may be at once")

// errLong says that a prompt is not read at all.
var errLong = errors.New("chain: a prompt of more bytes than are read")

// gate lets half the processors read long prompts, so that hostile ones, which take a second each and a hundred MB, leave
// the rest to everything else.
type gate struct {
	once   sync.Once
	places chan struct{}
}

// pass runs read for a prompt of a size, or says why not.
func (g *gate) pass(ctx context.Context, bytes int, read func() error) error {
	switch {
	case bytes > maxPromptBytes:
		return errLong
	case bytes < longPrompt:
		return read()
	}
	g.once.Do(func() { g.places = make(chan struct{}, max(1, runtime.GOMAXPROCS(0)/2)) })
	if err := g.enter(ctx); err != nil {
		return err
	}
	defer func() { <-g.places }()
	return read()
}

func (g *gate) enter(ctx context.Context) error {
	select {
	case g.places <- struct{}{}:
		return nil
	default:
	}
	wait := time.NewTimer(longWait)
	defer wait.Stop()
	select {
	case g.places <- struct{}{}:
		return nil
	case <-wait.C:
	case <-ctx.Done():
	}
	return errBusy
}
