package kvevents

import (
	"context"
	"fmt"
	"net"
	"runtime"
	"sync"
	"testing"

	"github.com/routerfleet/routerfleet/router/index"
	wire "github.com/routerfleet/routerfleet/router/kvevents/kveventstest"
	"github.com/routerfleet/routerfleet/router/zmtp"
)

// prefill is what a prefill step announces: blocks of 16 tokens, page by page as SGLang or in one event as vLLM.
func prefill(blocks int, perPage bool) wire.Batch {
	hashes := make([]wire.Hash, blocks)
	tokens := make([]uint32, 16*blocks)
	for i := range hashes {
		hashes[i] = wire.Hash(i+1) * 0x9e3779b97f4a7c15
	}
	for i := range tokens {
		tokens[i] = uint32(i*7919) % 150_000
	}
	if !perPage {
		return wire.Batch{TS: 1.7e9, Events: []wire.Event{wire.Stored{Hashes: hashes, Tokens: tokens, BlockSize: 16, Medium: "GPU"}}}
	}
	b := wire.Batch{TS: 1.7e9}
	for i := range hashes {
		s := wire.Stored{Hashes: hashes[i : i+1], Tokens: tokens[16*i : 16*(i+1)], BlockSize: 16, Medium: "GPU"}
		if i > 0 {
			s.Parent = &hashes[i-1]
		}
		b.Events = append(b.Events, s)
	}
	return b
}

func TestDecodingAllocatesNothingInSteadyState(t *testing.T) {
	for _, d := range wire.Dialects {
		for _, scheme := range []index.Scheme{index.SchemeSGLang, index.SchemeTokens} {
			for _, perPage := range []bool{false, true} {
				batch := prefill(16, perPage)
				batch.Events = append(batch.Events, wire.Removed{Hashes: []wire.Hash{1}}, wire.Cleared{},
					wire.Stored{Hashes: []wire.Hash{5}, Tokens: []uint32{1}, BlockSize: 1, LoRAName: "adapter", ExtraKeys: [][]any{{"adapter", []any{"image", 3}, "salt"}}})
				payload := d.Encode(batch)
				dec, b := NewDecoder(DecoderOptions{Scheme: scheme, Seed: 1}), &Batch{}
				if n := testing.AllocsPerRun(100, func() {
					b.reset()
					dec.decode(b, 1, payload)
				}); n != 0 {
					t.Errorf("%s, scheme %s, pages %v: %v allocations a batch", d.Name, scheme, perPage, n)
				}
				if b.Untrusted() {
					t.Errorf("%s: %s", d.Name, told(b))
				}
			}
		}
	}
}

func BenchmarkDecode(b *testing.B) {
	for _, d := range []wire.Dialect{wire.SGLangArray, wire.SGLangMap, wire.VLLMArray, wire.VLLMMap} {
		for _, scheme := range []index.Scheme{index.SchemeSGLang, index.SchemeTokens} {
			perPage := d.Hashes == wire.Int64
			payload := d.Encode(prefill(16, perPage))
			b.Run(fmt.Sprintf("dialect=%s/scheme=%s/blocks=16/tokens=256", d.Name, scheme), func(b *testing.B) {
				dec := NewDecoder(DecoderOptions{Scheme: scheme, Seed: 1})
				b.ReportAllocs()
				b.SetBytes(int64(len(payload)))
				for b.Loop() {
					dec.Decode(1, payload).Release()
				}
				b.ReportMetric(16*float64(b.N)/b.Elapsed().Seconds(), "blocks/s")
			})
		}
	}
}

// BenchmarkSubscription takes batches over a loopback socket into the inbox and out again.
func BenchmarkSubscription(b *testing.B) {
	for _, scheme := range []index.Scheme{index.SchemeSGLang, index.SchemeTokens} {
		b.Run(fmt.Sprintf("dialect=vllm-map/scheme=%s/blocks=16/tokens=256", scheme), func(b *testing.B) {
			benchmarkSubscription(b, scheme, wire.VLLMMap.Encode(prefill(16, false)))
		})
	}
}

func benchmarkSubscription(b *testing.B, scheme index.Scheme, payload []byte) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	pub := zmtp.NewPub(zmtp.PubOptions{})
	in := NewInbox(NewBudget(0))
	lane := in.Lane(index.Rank{})
	defer lane.Close()
	sub, err := NewSubscriber(SubscriberOptions{Address: l.Addr().String(), Sink: lane, Decoder: DecoderOptions{Scheme: scheme, Seed: 1}})
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(b.Context())
	var tasks sync.WaitGroup
	defer tasks.Wait()
	defer cancel()
	tasks.Go(func() { _ = pub.Serve(ctx, l) })
	tasks.Go(func() { _ = sub.Run(ctx) })
	for pub.Subscriptions() == 0 {
		runtime.Gosched()
	}
	b.ReportAllocs()
	b.SetBytes(int64(len(payload)))
	b.ResetTimer()
	sent, got := 0, 0
	for got < b.N {
		for ; sent < b.N && sent-got < 10_000; sent++ { // far below the high-water mark: nothing is dropped
			pub.Publish(nil, wire.SeqFrame(int64(sent)), payload)
		}
		<-in.Ready()
		for d, ok := in.Take(); ok; d, ok = in.Take() {
			if d.Batch != nil {
				got++
				d.Batch.Release()
			}
		}
	}
	b.ReportMetric(float64(got)/b.Elapsed().Seconds(), "batches/s")
}
