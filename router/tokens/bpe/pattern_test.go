package bpe

import (
	"math/rand/v2"
	"strings"
	"testing"
)

// The twins of the patterns are the expressions themselves; what is tested here is what a reader of the expression would
// ask first.
func TestPatternsCutWhereTheirExpressionsDo(t *testing.T) {
	for _, c := range []struct{ regex, text, want string }{
		{llama3Regex, "I'LL don't 'sup", "I|'LL| don|'t| '|sup"},
		{llama3Regex, "it'\u017fx", "it|'\u017f|x"},
		{llama3Regex, "12345", "123|45"},
		{llama3Regex, "a\u00a0b c", "a|\u00a0b| c"},
		{llama3Regex, "\tx\t\ty", "\tx|\t|\ty"},
		{llama3Regex, "x  \n\n  y", "x|  \n\n| | y"},
		{llama3Regex, "x \r\n", "x| \r\n"},
		{llama3Regex, "!!\n\nx", "!!\n\n|x"},
		{llama3Regex, " !x", " !|x"},
		{llama3Regex, "!x", "!x"},
		{llama3Regex, "x   ", "x|   "},
		{llama3Regex, "\u2003\u2003x", "\u2003|\u2003x"},
		{llama3Regex, "\u2028x", "\u2028x"},
		{llama3Regex, "\nx", "\n|x"},
		{llama3Regex, "a\u0301b", "a|\u0301b"},
		{llama3Regex, "'", "'"},
		{llama3Regex, "'r", "'r"},
		{llama3Regex, "' s", "'| s"},
		{qwen2Regex, "12 3", "1|2| |3"},
		{qwen35Regex, "a\u0301b !\u0301 \u0301", "a\u0301b| !|\u0301| \u0301"},
		{o200kRegex, "HTTPServer's camelCase", "HTTPServer's| camel|Case"},
		{o200kRegex, "ABC abC 中ABc 中AB", "ABC| ab|C| 中ABc| 中|AB"},
		{o200kRegex, "\u0301AB \u0301\u0301AB", "\u0301|AB| \u0301\u0301|AB"},
		{o200kRegex, "1234 //\n/x", "123|4| //\n/|x"},
		{tekkenRegex, "it's 12", "it|'s| |1|2"},
		{digitsRegex, "a1234 b", "a|123|4| b"},
		{hanRegex, "漢字かなabc。", "漢字かな|abc。"},
		{deepseekRegex, "#include <x_y>\n", "#include| <|x|_y|>\n"},
		{deepseekRegex, "12\u200d\u200d3a", "12\u200d\u200d|3a"},
		{deepseekRegex, "\x01\x02 a", "\x01\x02| a"},
		{gpt2Regex, "I'LL don't", "I|'|LL| don|'t"},
		{gpt2Regex, "a 123 !?", "a| 123| !?"},
		{gpt2Regex, "x\n\n y", "x|\n\n| y"},
		{gpt2Regex, "x\n\ny", "x|\n|\n|y"},
		{gpt2Regex, "x ", "x| "},
		{gpt2Regex, "\u00a0x", "\u00a0|x"},
	} {
		p, err := patternOf(c.regex)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for s := c.text; s != ""; {
			n := p.next(s)
			got, s = append(got, s[:n]), s[n:]
		}
		if g := strings.Join(got, "|"); g != c.want {
			t.Errorf("%q by %.12s: got %q, want %q", c.text, c.regex, g, c.want)
		}
	}
}

// What pattern.endsAtLines promises, and pieceOf relies on.
func TestTextMayBeCutBehindALineThatNoSpaceFollows(t *testing.T) {
	r := rand.New(rand.NewPCG(12, 13))
	pieces := []string{"a", "B", "1", " ", "  ", "\n", "\r\n", "\n\n", "'s", "'", "!", "\u00a0", "\u0301", "字", "\t", "...", "ſ", "/", "//"}
	line := func() string {
		var b strings.Builder
		for range r.IntN(8) {
			b.WriteString(pieces[r.IntN(len(pieces))])
		}
		return b.String()
	}
	run := run{Tokenizer: &Tokenizer{chars: reader{classes()}}}
	cuts := 0
	for range 20_000 {
		left, right := line()+"\n", line()
		if right == "" || !run.beginsAnew(right) {
			continue
		}
		cuts++
		for _, regex := range []string{llama3Regex, qwen2Regex, qwen35Regex, o200kRegex, tekkenRegex} {
			p, err := patternOf(regex)
			if err != nil || !p.endsAtLines {
				t.Fatalf("%.20s promises nothing of lines (%v)", regex, err)
			}
			for s := left + right; len(s) > len(right); {
				n := p.next(s)
				if s = s[n:]; len(s) < len(right) {
					t.Fatalf("a word lies across the line's end of %q and %q", left, right)
				}
			}
			for s := left; s != ""; {
				n, m := p.next(s), p.next(s+right)
				if n != m {
					t.Fatalf("%q ends in other words when %q follows", left, right)
				}
				s = s[n:]
			}
		}
	}
	if cuts < 5000 {
		t.Errorf("%d cuts were tried", cuts)
	}
}
