// Package streams is a recorded KV event stream with the answers an index must give to it, for tests only. NOTICE says
// where it comes from.
package streams

import (
	"bufio"
	"bytes"
	"compress/gzip"
	_ "embed"
	"encoding/json"
	"fmt"
	"io"
)

//go:embed conversation_4workers.jsonl.gz
var conversationGZ []byte

// Engines is how many engines the stream has.
const Engines = 4

// maxLine bounds one line; the longest has some 2 kB.
const maxLine = 1 << 20

// Line is one event or one query.
type Line struct {
	// Query is set on a query: how many of the leading blocks does each engine hold?
	Query  []uint64
	Expect [Engines]int

	Engine  int
	Seq     int64
	Stored  *Stored
	Removed []uint64
}

// Stored is a chain of blocks an engine stored behind a parent, or at the root.
type Stored struct {
	Parent *uint64  `json:"parent"`
	Blocks []uint64 `json:"blocks"`
}

// Conversation decodes the stream, whole: 7,669 events and 400 queries.
func Conversation() ([]Line, error) {
	unpacked, err := gzip.NewReader(bytes.NewReader(conversationGZ))
	if err != nil {
		return nil, fmt.Errorf("unpack the embedded stream: %w", err)
	}
	return decode(unpacked)
}

func decode(r io.Reader) ([]Line, error) {
	var out []Line
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxLine)
	for lines.Scan() {
		var doc struct {
			Kind    string       `json:"k"`
			Engine  int          `json:"w"`
			Seq     int64        `json:"seq"`
			Stored  *Stored      `json:"stored"`
			Removed []uint64     `json:"removed"`
			Blocks  []uint64     `json:"blocks"`
			Expect  [Engines]int `json:"expect"`
		}
		if err := json.Unmarshal(lines.Bytes(), &doc); err != nil {
			return nil, fmt.Errorf("stream line %d: %w", len(out)+1, err)
		}
		l := Line{Query: doc.Blocks, Expect: doc.Expect, Engine: doc.Engine, Seq: doc.Seq, Stored: doc.Stored, Removed: doc.Removed}
		if (doc.Kind == "q") != (l.Query != nil) || l.Engine < 0 || l.Engine >= Engines {
			return nil, fmt.Errorf("stream line %d is neither an event nor a query", len(out)+1)
		}
		out = append(out, l)
	}
	return out, lines.Err()
}
