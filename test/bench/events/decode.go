package main

import (
	"fmt"
	"runtime"
	"time"

	"github.com/vmihailenco/msgpack/v5"

	"github.com/routerfleet/routerfleet/router/index"
	"github.com/routerfleet/routerfleet/router/kvevents"
	wire "github.com/routerfleet/routerfleet/router/kvevents/kveventstest"
)

// wirePiece is how many blocks an encoded batch stores, and as many it removes.
const wirePiece = 16

// decoding is how fast payloads are decoded.
type decoding struct {
	Batches, Blocks float64 // a second
	Allocations     float64 // a batch
}

// decodedBlocks is the size of the story that is decoded: its payloads do not fit the processor's nearest cache.
const decodedBlocks = 16 * sessionBlocks

func dialectOf(name string) (wire.Dialect, error) {
	for _, d := range wire.Dialects {
		if d.Name == name {
			return d, nil
		}
	}
	return wire.Dialect{}, fmt.Errorf("there is no dialect %q", name)
}

// decode measures a dialect in three ways: hashes alone, with the tokens' chunks, and a MessagePack library that knows
// nothing of it.
func (f *figures) decode(roundTime time.Duration) error {
	d, err := dialectOf(f.Row.Dialect)
	if err != nil {
		return err
	}
	_, payloads := newStory(1, decodedBlocks, wirePiece, true).encoded(d)
	for _, way := range []struct {
		scheme index.Scheme
		into   *decoding
	}{{index.SchemeSGLang, &f.Hashes}, {index.SchemeTokens, &f.Tokens}} {
		dec := kvevents.NewDecoder(kvevents.DecoderOptions{Scheme: way.scheme, Seed: 1})
		*way.into, err = timeDecoding(payloads, roundTime, func(p []byte) (int, error) {
			b := dec.Decode(0, p)
			defer b.Release()
			if b.Untrusted() {
				return 0, fmt.Errorf("%s: the decoder skipped %v", d.Name, b.Skips)
			}
			return blocksOf(b), nil
		})
		if err != nil {
			return err
		}
	}
	f.Any, err = timeDecoding(payloads, roundTime, func(p []byte) (int, error) {
		var v any
		return 2 * wirePiece, msgpack.Unmarshal(p, &v)
	})
	return err
}

func blocksOf(b *kvevents.Batch) (n int) {
	for _, e := range b.Events {
		switch e := e.(type) {
		case *kvevents.Stored:
			n += len(e.Hashes)
		case *kvevents.Removed:
			n += len(e.Hashes)
		}
	}
	return n
}

// timeDecoding decodes the payloads in turn, once unmeasured, then until the time is over.
func timeDecoding(payloads [][]byte, roundTime time.Duration, decode func([]byte) (blocks int, err error)) (decoding, error) {
	for _, p := range payloads {
		n, err := decode(p)
		if err != nil {
			return decoding{}, fmt.Errorf("decode a batch: %w", err)
		}
		if n != 2*wirePiece {
			return decoding{}, fmt.Errorf("a batch of %d blocks was decoded to %d", 2*wirePiece, n)
		}
	}
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	batches, blocks, began := 0, 0, time.Now()
	for batches == 0 || time.Since(began) < roundTime {
		for _, p := range payloads {
			n, err := decode(p)
			if err != nil {
				return decoding{}, err
			}
			blocks += n
		}
		batches += len(payloads)
	}
	took := time.Since(began).Seconds()
	runtime.ReadMemStats(&after)
	return decoding{float64(batches) / took, float64(blocks) / took, float64(after.Mallocs-before.Mallocs) / float64(batches)}, nil
}
