//go:build npm

package main

import (
	"strings"
	"testing"
	"time"
)

// A short run of every kind: measure itself fails if caches change a token or the policy chooses nobody.
func TestAShortRunOfEveryRowIsComplete(t *testing.T) {
	var all []figures
	for _, r := range rows() {
		f, err := measure(r, time.Millisecond)
		if err != nil {
			t.Fatalf("%+v: %v", r, err)
		}
		all = append(all, f)
		switch r.Kind {
		case kindLoad:
			if f.FileBytes < 1e6 || f.Resident < 1e6 || f.Load <= 0 {
				t.Errorf("%+v", f)
			}
		case kindEncode:
			e := f.Encode
			if e.Tokens < 10_000 || e.Bytes < 2*e.Tokens || e.None <= 0 || e.Cold <= 0 || e.Warm <= 0 || e.Seen <= 0 || e.CacheBytes < 1e5 {
				t.Errorf("%s %s: %+v", r.Model, r.Text, e)
			}
		case kindPrompt:
			p := f.Prompt
			if p.Tokens < promptTokens || p.Tokens > promptTokens+1000 || p.Turns < 20 {
				t.Errorf("a chat of %d tokens in %d messages", p.Tokens, p.Turns)
			}
			for _, q := range []quantiles{p.None, p.Words, p.Turn, p.Keys, p.Choose, p.Whole, p.WholeTurn} {
				if q.P50 <= 0 || q.P99 < q.P50 {
					t.Errorf("%+v", p)
				}
			}
		}
	}
	text := markdown(all)
	for _, want := range []string{"| prose | llama-3.1 |", "| code | qwen-3 |", "With qwen-3 all of it takes"} {
		if !strings.Contains(text, want) {
			t.Errorf("the report lacks %q:\n%s", want, text)
		}
	}
}
