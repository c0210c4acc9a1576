package streams

import (
	"strings"
	"testing"
)

func TestTheStreamIsWhole(t *testing.T) {
	lines, err := Conversation()
	if err != nil {
		t.Fatal(err)
	}
	next := [Engines]int64{}
	queries, blocks := 0, 0
	for i, l := range lines {
		if l.Query != nil {
			queries++
			continue
		}
		if l.Seq != next[l.Engine] {
			t.Fatalf("line %d: engine %d goes on with seq %d, want %d", i+1, l.Engine, l.Seq, next[l.Engine])
		}
		next[l.Engine]++
		if l.Stored != nil {
			blocks += len(l.Stored.Blocks)
		}
	}
	if queries != 400 || len(lines) != 8069 {
		t.Errorf("%d queries in %d lines", queries, len(lines))
	}
	if blocks < 50_000 {
		t.Errorf("%d blocks were stored", blocks)
	}
}

func TestALineOfAnotherKindIsRefused(t *testing.T) {
	for _, text := range []string{`{"k":"ev","w":4,"seq":0,"removed":[1]}`, `{"k":"q"}`, `{`, `{"k":"ev","blocks":[1]}`} {
		if _, err := decode(strings.NewReader(text)); err == nil {
			t.Errorf("%s was taken", text)
		}
	}
}
