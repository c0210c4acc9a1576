package chat

import (
	_ "embed"
	"encoding/json"
	"testing"
)

// conversationsFile has chat requests of all kinds: tools, calls with odd arguments, parts, thinking, other scripts, and
// clients' text that looks like special tokens.
//
//go:embed testdata/conversations.json
var conversationsFile []byte

func conversations(t testing.TB) []json.RawMessage {
	t.Helper()
	var all []json.RawMessage
	if err := json.Unmarshal(conversationsFile, &all); err != nil {
		t.Fatal(err)
	}
	if len(all) < 20 {
		t.Fatalf("%d conversations, the promise is for 20", len(all))
	}
	return all
}
