package bpe_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/routerfleet/routerfleet/router/tokens/bpe"
)

// BenchmarkEncode is of made-up files; those of models are measured by test/bench/tokens.
func BenchmarkEncode(b *testing.B) {
	r := rand.New(rand.NewPCG(40, 41))
	var chat strings.Builder
	for range 40 {
		chat.WriteString("<|im_start|>user\n" + document(r) + "<|im_end|>\n")
	}
	for _, caches := range []struct {
		name string
		o    bpe.Options
	}{{"none", uncached}, {"words", bpe.Options{MessageCacheBytes: -1}}, {"both", bpe.Options{}}} {
		for _, name := range []string{"llama", "qwen"} {
			b.Run(fmt.Sprintf("file=%s/caches=%s", name, caches.name), func(b *testing.B) {
				tok := load(b, madeUp[name](), caches.o)
				dst := encode(b, tok, chat.String(), bpe.Bare)
				b.SetBytes(int64(chat.Len()))
				b.ReportAllocs()
				for b.Loop() {
					dst, _ = tok.Encode(dst[:0], chat.String(), bpe.Bare)
				}
			})
		}
	}
}

func BenchmarkLongWord(b *testing.B) {
	tok := load(b, llamaLike(), uncached)
	for _, n := range []int{100, 1000, bpe.MaxWordBytes} {
		word := strings.Repeat("HTTPServernaive", n/15+1)[:n]
		b.Run(fmt.Sprintf("bytes=%d", n), func(b *testing.B) {
			dst := encode(b, tok, word, bpe.Bare)
			b.SetBytes(int64(n))
			b.ReportAllocs()
			for b.Loop() {
				dst, _ = tok.Encode(dst[:0], word, bpe.Bare)
			}
		})
	}
}
