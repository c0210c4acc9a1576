package main

import (
	"fmt"
	"strings"

	"github.com/routerfleet/routerfleet/router/index"
	"github.com/routerfleet/routerfleet/test/bench/page"
)

// Targets of the page.
var applyTargets = map[index.Scheme]float64{index.SchemeSGLang: 4e6, index.SchemeTokens: 2.5e6} // blocks a second

const keyMapTarget = 24.0 // bytes a (rank, block)

func markdown(all []figures) string {
	var b strings.Builder
	fmt.Fprintf(&b, "Machine: %s.\n\n", page.Machine())
	reportDecoding(&b, page.Of(all, kindDecode))
	reportApplies(&b, page.Of(all, kindApply))
	for _, f := range page.Of(all, kindKeyMap) {
		fmt.Fprintf(&b, "\nThe tokens scheme's map from engine hashes to keys takes **%.1f bytes** a (rank, block) at %.1f M of them on %d ranks, %.1f at the worst point of growth (target: at most %.0f, %s).\n",
			f.BytesABlock.End, float64(f.Row.Blocks)/1e6, applyRanks, f.BytesABlock.Worst, keyMapTarget, page.Verdict(f.BytesABlock.Worst <= keyMapTarget))
	}
	reportPipeline(&b, page.Of(all, kindPipeline))
	reportKeys(&b, page.Of(all, kindKeys))
	return b.String()
}

func reportDecoding(b *strings.Builder, rows []figures) {
	fmt.Fprintf(b, "Decoding batches that store %d blocks of %d tokens and remove as many, one goroutine: thousand batches a second, million blocks a second, allocations a batch. *msgpack* is vmihailenco/msgpack decoding into `any`:\n\n", wirePiece, blockTokens)
	b.WriteString("| dialect | hashes | | | with chunks (scheme tokens) | | | msgpack | | |\n|---|---|---|---|---|---|---|---|---|---|\n")
	for _, f := range rows {
		fmt.Fprintf(b, "| %s |", f.Row.Dialect)
		for _, d := range []decoding{f.Hashes, f.Tokens, f.Any} {
			fmt.Fprintf(b, " %.0f k/s | %.1f M/s | %.1f |", d.Batches/1e3, d.Blocks/1e6, d.Allocations)
		}
		b.WriteString("\n")
	}
}

func reportApplies(b *strings.Builder, rows []figures) {
	if len(rows) == 0 {
		return
	}
	fmt.Fprintf(b, "\nThe pump's applies over an index of %.1f M blocks on %d ranks, million blocks a second, stored and removed in equal parts, by blocks in a batch:\n\n", float64(rows[0].Row.Blocks)/1e6, applyRanks)
	b.WriteString("| scheme |")
	for _, n := range batchSizes {
		fmt.Fprintf(b, " %d |", n)
	}
	b.WriteString(" target |\n|---|" + strings.Repeat("---|", len(batchSizes)) + "---|\n")
	for _, chunk := range byScheme(rows) {
		fmt.Fprintf(b, "| %s |", chunk[0].Row.Scheme)
		var short []string
		target := applyTargets[chunk[0].Row.Scheme]
		for _, f := range chunk {
			fmt.Fprintf(b, " %.1f |", f.Blocks/1e6)
			if f.Blocks < target {
				short = append(short, fmt.Sprint(f.Row.Batch))
			}
		}
		switch {
		case target == 0:
			b.WriteString(" - |\n")
		case len(short) > 0:
			fmt.Fprintf(b, " %.1f, missed at %s |\n", target/1e6, strings.Join(short, ", "))
		default:
			fmt.Fprintf(b, " %.1f, met |\n", target/1e6)
		}
	}
}

// byScheme cuts rows where the scheme changes.
func byScheme(rows []figures) (out [][]figures) {
	for i, f := range rows {
		if i == 0 || f.Row.Scheme != rows[i-1].Row.Scheme {
			out = append(out, nil)
		}
		out[len(out)-1] = append(out[len(out)-1], f)
	}
	return out
}

func reportPipeline(b *strings.Builder, rows []figures) {
	fmt.Fprintf(b, "\nThe whole way, one rank: publisher, loopback TCP, subscriber, decoder, lane and pump in one process, batches as for decoding:\n\n")
	b.WriteString("| dialect | scheme | blocks in the index | batches | blocks |\n|---|---|---|---|---|\n")
	for _, f := range rows {
		fmt.Fprintf(b, "| %s | %s | %.2f M | %.0f k/s | %.1f M/s |\n", f.Row.Dialect, f.Row.Scheme, float64(f.Row.Blocks)/1e6, f.Batches/1e3, f.Blocks/1e6)
	}
}

func reportKeys(b *strings.Builder, rows []figures) {
	fmt.Fprintf(b, "\nA request's block keys, one goroutine, a prompt of %d tokens:\n\n", promptTokens)
	b.WriteString("| scheme | tokens a block | tokens | the prompt |\n|---|---|---|---|\n")
	for _, f := range rows {
		fmt.Fprintf(b, "| %s | %d | %.0f M/s | %s |\n", f.Row.Scheme, f.Row.BlockSize,
			promptTokens/f.Prompt.Seconds()/1e6, page.Micros(f.Prompt))
	}
}
