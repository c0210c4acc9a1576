package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/routerfleet/routerfleet/test/bench/page"
)

// wholeTarget is the page's target for a prompt's way from text to decision.
const wholeTarget = 5 * time.Millisecond

func markdown(all []figures) string {
	var b strings.Builder
	fmt.Fprintf(&b, "Machine: %s; each row on one of them, in processor time.\n\n", page.Machine())
	b.WriteString("Loading a tokenizer.json, and the heap it takes from then on, caches not counted:\n\n| model | file | time | heap |\n|---|---|---|---|\n")
	for _, f := range page.Of(all, kindLoad) {
		fmt.Fprintf(&b, "| %s | %.1f MB | %.0f ms | %.1f MB |\n", f.Row.Model, mega(f.FileBytes), f.Load.Seconds()*1e3, mega(f.Resident))
	}
	b.WriteString("\nEncoding whole documents, million tokens a second: without caches, with an empty word cache, with a filled one, and the same texts again with the message cache:\n\n")
	b.WriteString("| text | model | tokens | bytes a token | no caches | cold | warm | seen | caches then hold |\n|---|---|---|---|---|---|---|---|---|\n")
	for _, f := range page.Of(all, kindEncode) {
		e := f.Encode
		fmt.Fprintf(&b, "| %s | %s | %d k | %.1f | %.1f | %.1f | %.1f | %.0f | %.1f MB |\n", f.Row.Text, f.Row.Model, e.Tokens/1000,
			float64(e.Bytes)/float64(e.Tokens), e.None/1e6, e.Cold/1e6, e.Warm/1e6, e.Seen/1e6, mega(e.CacheBytes))
	}
	reportPrompts(&b, page.Of(all, kindPrompt))
	return b.String()
}

func reportPrompts(b *strings.Builder, rows []figures) {
	fmt.Fprintf(b, "\nA chat of %d tokens from its text to a decision among %d ranks that hold parts of it, blocks of %d tokens in the sglang scheme, p50 (p99):\n\n", promptTokens, ranks, blockSize)
	b.WriteString("| model | messages | encode, no caches | encode, warm words | encode, a new last message | keys | match and choose | all, warm words | all, a new last message |\n|---|---|---|---|---|---|---|---|---|\n")
	for _, f := range rows {
		p := f.Prompt
		fmt.Fprintf(b, "| %s | %d |", f.Row.Model, p.Turns)
		for _, q := range []quantiles{p.None, p.Words, p.Turn, p.Keys, p.Choose, p.Whole, p.WholeTurn} {
			fmt.Fprintf(b, " %s (%s) |", page.Micros(q.P50), page.Micros(q.P99))
		}
		b.WriteString("\n")
	}
	for _, f := range rows {
		fmt.Fprintf(b, "\nWith %s all of it takes **%s** at p50 with a warm word cache (target: at most %v, %s).\n", f.Row.Model,
			page.Micros(f.Prompt.Whole.P50), wholeTarget, page.Verdict(f.Prompt.Whole.P50 <= wholeTarget))
	}
}

func mega(n int64) float64 { return float64(n) / 1e6 }
