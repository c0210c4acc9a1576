// Command snapshot measures how one replica teaches another: from a request to a committed index, over loopback and
// with two processes, and what it costs both in memory.
//
// A second table sets the ways beside each other in which a million blocks can be taught: format 2, format 1 as text and
// compressed, and format 2 to several learners at once.
//
//	go run ./test/bench/snapshot                             prints the tables, with a million blocks
//	go run ./test/bench/snapshot --large                     and with 8 million
//	go run ./test/bench/snapshot --write docs/performance.md  also replaces the measured part of that page
//
// Teacher and learner of each row run in processes of their own, so that their memory is their own.
package main

import (
	"errors"
	"flag"
	"fmt"
	"strings"
	"time"

	"github.com/routerfleet/routerfleet/router/index"
	"github.com/routerfleet/routerfleet/test/bench/page"
)

// command is how the page says to measure again.
const command = "go run ./test/bench/snapshot --large --write docs/performance.md"

// shape is one row: blocks are 8 system prompts of 128 on every rank and sessions of 200, each on one.
type shape struct {
	Scheme   index.Scheme
	Ranks    int
	Sessions int
	Way      way // zero in rows of the first table: format 2, one learner
}

// blocks is how many an index of the shape has.
func (s shape) blocks() int { return systemPrompts*systemBlocks + s.Sessions*sessionBlocks }

// figures are what a row measured; the learner's process fills in Learnt alone.
type figures struct {
	Shape  shape
	Bytes  int64 // of the body
	Learnt learnt
	CPU    time.Duration // of the teacher, for a build and its bodies: two, or one for each of several learners

	IndexBytes, TeacherPeak int64 // resident, of the teacher: with its index alone, and at most
}

// Kind is the table of a row.
func (f figures) Kind() string {
	if f.Shape.Way == (way{}) {
		return kindSizes
	}
	return kindWays
}

// learnt is what the learner measured; of several, see together.
type learnt struct {
	Began        time.Time     // the request
	Busy         int           // answers that the teacher serves as many as it may
	Table, Ready time.Duration // from the request to the table, and to the last commit
	Read         time.Duration // of the same build again, with nothing done with it
	CPU          time.Duration // until it was ready
	Blocks       int
	End, Peak    int64 // resident
}

func main() {
	learn := flag.String("learn", "", "fetch from this URL, with --shape, and print what it took as JSON")
	large := flag.Bool("large", false, "measure 8 million blocks, too: takes some 3 GB of memory")
	page.Program[shape, figures]{
		Name: "snapshot", Command: command, Flag: "shape",
		Prepare: func() error {
			if *learn != "" {
				return errors.New("--learn fetches one shape: give it with --shape")
			}
			return nil
		},
		Rows: func() []shape { return shapes(*large) },
		Measure: func(s shape) (figures, error) {
			if *learn != "" {
				return learnFrom(s, *learn)
			}
			return teach(s)
		},
		Markdown: markdown,
	}.Main()
}

func shapes(large bool) []shape {
	rows := []shape{
		{Scheme: index.SchemeSGLang, Ranks: 64, Sessions: 5_000},
		{Scheme: index.SchemeTokens, Ranks: 64, Sessions: 5_000},
	}
	for _, w := range ways {
		rows = append(rows, shape{index.SchemeSGLang, 64, 5_000, w})
	}
	if large {
		rows = append(rows,
			shape{Scheme: index.SchemeSGLang, Ranks: 64, Sessions: 40_000},
			shape{Scheme: index.SchemeSGLang, Ranks: 1000, Sessions: 40_000},
			shape{Scheme: index.SchemeTokens, Ranks: 64, Sessions: 40_000})
	}
	return rows
}

func markdown(rows []figures) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n\n", page.Machine())
	fmt.Fprintln(&b, "| scheme | ranks | blocks | bytes a block | request to table | request to ready | blocks a second | read alone, blocks a second | processor time, teacher and learner | teacher: index, and beyond it, bytes a block | learner: index, and beyond it, bytes a block |")
	fmt.Fprintln(&b, "|---|---|---|---|---|---|---|---|---|---|---|")
	for _, f := range page.Of(rows, kindSizes) {
		n := float64(f.Learnt.Blocks)
		fmt.Fprintf(&b, "| %s | %d | %.1f M | %.1f | %.2f s | %.2f s | %.1f M | %.1f M | %.2f s, %.2f s | %.0f + %.0f | %.0f + %.0f |\n", f.Shape.Scheme, f.Shape.Ranks, n/1e6,
			float64(f.Bytes)/n, f.Learnt.Table.Seconds(), f.Learnt.Ready.Seconds(), n/f.Learnt.Ready.Seconds()/1e6, n/f.Learnt.Read.Seconds()/1e6,
			f.CPU.Seconds(), f.Learnt.CPU.Seconds(),
			float64(f.IndexBytes)/n, float64(f.TeacherPeak-f.IndexBytes)/n, float64(f.Learnt.End)/n, float64(f.Learnt.Peak-f.Learnt.End)/n)
	}
	writeWays(&b, page.Of(rows, kindWays))
	return b.String()
}
