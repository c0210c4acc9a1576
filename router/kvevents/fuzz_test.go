package kvevents

import (
	"testing"

	"github.com/routerfleet/routerfleet/router/index"
	wire "github.com/routerfleet/routerfleet/router/kvevents/kveventstest"
)

// FuzzDecode holds the decoder to its invariant: no panic, and memory in proportion to the payload and below the limits.
func FuzzDecode(f *testing.F) {
	for _, d := range wire.Dialects {
		f.Add(d.Encode(some(ptr(1))))
		f.Add(d.Encode(wire.Batch{Events: []wire.Event{
			wire.Stored{Hashes: []wire.Hash{1, 2}, Tokens: []uint32{1, 2, 3}, Pairs: true, BlockSize: 1, LoRAID: ptr(1), ExtraKeys: [][]any{{1, []any{"i", 0}, "s"}, nil}},
		}}))
	}
	f.Add([]byte{0x93, 0, 0xdd, 0xff, 0xff, 0xff, 0xff})
	f.Add([]byte{0xdf, 0xff, 0xff, 0xff, 0xff, 0xa6, 'e', 'v', 'e', 'n', 't', 's'})
	decoders := []*Decoder{
		NewDecoder(DecoderOptions{Scheme: index.SchemeSGLang}), NewDecoder(DecoderOptions{Scheme: index.SchemeTokens, Seed: 1}),
	}
	f.Fuzz(func(t *testing.T, payload []byte) {
		if len(payload) > 1<<20 {
			return
		}
		for _, d := range decoders {
			b := d.Decode(1, payload)
			hashes := 0
			for _, e := range b.Events {
				switch e := e.(type) {
				case *Stored:
					hashes += len(e.Hashes)
					if len(e.Hashes) == 0 || len(e.Hashes) > maxEventHashes || len(e.Chunks) != 0 && len(e.Chunks) != len(e.Hashes) {
						t.Errorf("%d hashes, %d chunks", len(e.Hashes), len(e.Chunks))
					}
				case *Removed:
					hashes += len(e.Hashes)
				}
			}
			if hashes > maxBatchHashes || len(b.Events) > maxBatchEvents {
				t.Errorf("%d hashes, %d events", hashes, len(b.Events))
			}
			// Growing arrays doubles them at most, and each hash takes a byte of payload, each event some ten.
			if most := int64(64*len(payload)) + 4*keptSlabBytes*5; b.Bytes() > most {
				t.Errorf("%d bytes of payload take %d", len(payload), b.Bytes())
			}
			if cap(d.block) > 16*maxBlockTokens || cap(d.extra) > 4*maxExtraBytes {
				t.Errorf("the decoder keeps %d and %d bytes", cap(d.block), cap(d.extra))
			}
			b.Release()
		}
	})
}

// FuzzSkip compares skip with the reader it replaces.
func FuzzSkip(f *testing.F) {
	f.Add(wire.SGLangMap.Encode(some(nil)))
	for c := range 256 {
		f.Add([]byte{byte(c), 2, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0})
	}
	f.Fuzz(func(t *testing.T, p []byte) {
		rest, err := skip(p)
		want, wantErr := naiveSkip(p, 0)
		if (err == nil) != (wantErr == nil) || err == nil && len(rest) != len(want) {
			t.Errorf("% x: %d left, %v; want %d left, %v", p, len(rest), err, len(want), wantErr)
		}
	})
}
