package bpe

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

// Each list at its limit and with one more, and a file with one byte more.
func TestLoadStopsAtItsLimits(t *testing.T) {
	l := limits{fileBytes: 1 << 12, vocab: 4, merges: 3, addedTokens: 2}
	numbered := func(format string, n int) string {
		var all []string
		for i := range n {
			all = append(all, strings.ReplaceAll(format, "#", fmt.Sprint(i)))
		}
		return strings.Join(all, ",")
	}
	for name, c := range map[string]struct {
		file func(n int) string
		most int
		want string
	}{
		"added tokens": {func(n int) string { return `{"added_tokens":[` + numbered(`{"id":#}`, n) + `]}` }, 2, "more than 2 added_tokens"},
		"vocabulary":   {func(n int) string { return `{"model":{"vocab":{` + numbered(`"a#":#`, n) + `}}}` }, 4, "more than 4 tokens"},
		"merges":       {func(n int) string { return `{"model":{"merges":[` + numbered(`"a b"`, n) + `]}}` }, 3, "more than 3 merges"},
		"pairs":        {func(n int) string { return `{"model":{"merges":[` + numbered(`["a","b"]`, n) + `]}}` }, 3, "more than 3 merges"},
		"file":         {func(n int) string { return "{}" + strings.Repeat(" ", n-2) }, 1 << 12, "more than 4096 bytes"},
	} {
		if _, err := readFile(strings.NewReader(c.file(c.most)), l); err != nil {
			t.Errorf("%s at the limit: %v", name, err)
		}
		if _, err := readFile(strings.NewReader(c.file(c.most+1)), l); !errors.Is(err, ErrUnsupported) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s beyond the limit: %v, want %s", name, err, c.want)
		}
	}
	long := `{"normalizer":{"type":"NFC","x":"` + strings.Repeat("x", maxStepBytes) + `"}}`
	if _, err := readFile(strings.NewReader(long), fileLimits); !errors.Is(err, ErrUnsupported) {
		t.Errorf("a step beyond the limit: %v", err)
	}
}
