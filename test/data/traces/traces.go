// Package traces is the public conversation trace that tests and the load
// generator replay, and the rule that turns it into prompts. NOTICE says where
// the data comes from.
//
// The trace names the blocks of a prompt by id: equal ids are equal blocks
// behind equal prefixes. Prompts are made by one rule, so that everybody who
// replays the trace sends the same tokens: block id b is the 512 tokens of
// Block(b), and input_length cuts the last block short.
package traces

import (
	"bytes"
	_ "embed"
	"fmt"
)

// conversationGZ is 5,719 requests, 1.4 MB unpacked.
//
//go:embed conversation_first30min.jsonl.gz
var conversationGZ []byte

// Conversation decodes the shipped trace, whole.
func Conversation() ([]Request, error) {
	requests, err := Decode(bytes.NewReader(conversationGZ))
	if err != nil {
		return nil, fmt.Errorf("decode the embedded conversation trace: %w", err)
	}
	return requests, nil
}
