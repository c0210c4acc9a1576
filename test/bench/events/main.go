// Command events measures the way of KV events from an engine's bytes to the index: decoding, the pump's applies, both
// behind a publisher on loopback TCP, what the tokens scheme remembers a block, and a request's own keys.
//
//	go run ./test/bench/events                             prints the tables
//	go run ./test/bench/events --write docs/performance.md  also replaces the measured part of that page
//	go run ./test/bench/events --scale 0.1                  a tenth of the blocks, for a quick look
//
// Each row runs in a process of its own, so that no row pays for another's memory.
package main

import (
	"flag"
	"fmt"
	"runtime"
	"time"

	"github.com/routerfleet/routerfleet/router/index"
	wire "github.com/routerfleet/routerfleet/router/kvevents/kveventstest"
	"github.com/routerfleet/routerfleet/test/bench/page"
)

// command is how the page says to measure again.
const command = "go run ./test/bench/events --write docs/performance.md"

// The kinds of rows.
const (
	kindDecode   = "decode"
	kindApply    = "apply"
	kindKeyMap   = "key map"
	kindPipeline = "pipeline"
	kindKeys     = "keys"
)

// warmBlocks is how many blocks an index holds before its pump is measured, over all ranks.
const warmBlocks = 1 << 20

// row is one process's part.
type row struct {
	Kind      string
	Dialect   string       // decode and pipeline
	Scheme    index.Scheme // all but decode
	Batch     int          // blocks stored and removed in a batch; apply
	BlockSize int          // tokens a block; keys
	Blocks    int          // in the index when it is measured; apply, key map and pipeline
}

// figures are what one row measured. Rates are a second of wall time.
type figures struct {
	Row row

	Hashes, Tokens, Any decoding // decode

	Batches, Blocks float64 // apply and pipeline
	BytesABlock     bytesABlock
	Prompt          time.Duration // keys: of one prompt of promptTokens
}

// Kind is the kind of its row.
func (f figures) Kind() string { return f.Row.Kind }

func rows(scale float64) []row {
	blocks := int(warmBlocks * scale)
	var all []row
	for _, d := range wire.Dialects {
		all = append(all, row{Kind: kindDecode, Dialect: d.Name})
	}
	for _, s := range []index.Scheme{index.SchemeSGLang, index.SchemeVLLM, index.SchemeTokens} {
		for _, n := range batchSizes {
			all = append(all, row{Kind: kindApply, Scheme: s, Batch: n, Blocks: blocks})
		}
	}
	all = append(all, row{Kind: kindKeyMap, Scheme: index.SchemeTokens, Batch: 64, Blocks: blocks})
	for _, p := range []row{
		{Dialect: wire.SGLangMap.Name, Scheme: index.SchemeSGLang},
		{Dialect: wire.VLLMMap.Name, Scheme: index.SchemeVLLM},
		{Dialect: wire.VLLMMap.Name, Scheme: index.SchemeTokens},
	} {
		p.Kind, p.Blocks = kindPipeline, blocks/8
		all = append(all, p)
	}
	for _, s := range []index.Scheme{index.SchemeSGLang, index.SchemeVLLM, index.SchemeTokens} {
		for _, size := range []int{16, 64} {
			all = append(all, row{Kind: kindKeys, Scheme: s, BlockSize: size})
		}
	}
	return all
}

// batchSizes are the batches the pump is measured with: a decode step's, a prefill step's, and a long prompt at once.
var batchSizes = []int{8, 64, 512}

func main() {
	// The one row that needs the heap's profile has every allocation recorded; the others are spared the samples.
	runtime.MemProfileRate = 0
	scale := flag.Float64("scale", 1, "share of the blocks")
	roundTime := page.RoundTime()
	page.Program[row, figures]{
		Name: "events", Command: command, Flag: "row",
		Rows:     func() []row { return rows(*scale) },
		Measure:  func(r row) (figures, error) { return measure(r, *roundTime) },
		Markdown: markdown,
	}.Main()
}

func measure(r row, roundTime time.Duration) (figures, error) {
	f := figures{Row: r}
	var err error
	switch r.Kind {
	case kindDecode:
		err = f.decode(roundTime)
	case kindApply:
		err = f.apply(roundTime)
	case kindKeyMap:
		err = f.keyMap()
	case kindPipeline:
		err = f.pipeline(roundTime)
	case kindKeys:
		err = f.keys(roundTime)
	default:
		err = fmt.Errorf("there are no rows of kind %q", r.Kind)
	}
	if err != nil {
		return figures{}, fmt.Errorf("%s: %w", r.Kind, err)
	}
	return f, nil
}
