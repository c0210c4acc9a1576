package bpe

import (
	"errors"
	"math/rand/v2"
	"strings"
	"testing"
)

// cutAll shows text cut at the tokens of a set: tokens in brackets, what they took with them included.
func cutAll(t *testing.T, text string, tokens ...addedToken) string {
	t.Helper()
	s, err := newAddedSet(tokens)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for c := (cutter{set: s, text: text}); ; {
		from := c.done
		before, token := c.next()
		b.WriteString(before)
		if token == nil {
			return b.String()
		}
		b.WriteString("[" + text[from+len(before):c.done] + "]")
	}
}

func TestTextIsCutAtAddedTokensAsTheirFlagsSay(t *testing.T) {
	eot, end := addedToken{Content: "<e>"}, addedToken{Content: "<end>"}
	left, right := addedToken{Content: "<l>", Lstrip: true}, addedToken{Content: "<r>", Rstrip: true}
	word := addedToken{Content: "the", SingleWord: true}
	for _, c := range []struct {
		tokens     []addedToken
		text, want string
	}{
		{nil, "a<e>", "a<e>"},
		{[]addedToken{eot}, "", ""},
		{[]addedToken{eot}, "<e>", "[<e>]"},
		{[]addedToken{eot}, "a<e><e>b<e", "a[<e>][<e>]b<e"},
		{[]addedToken{eot, end}, "<en<end<end>", "<en<end[<end>]"},
		// The leftmost, then the longest.
		{[]addedToken{{Content: "ab"}, {Content: "abc"}, {Content: "bcd"}}, "abcd abd bcd", "[abc]d [ab]d [bcd]"},
		{[]addedToken{{Content: "\n"}, {Content: "\n\n"}}, "a\n\n\nb", "a[\n\n][\n]b"},
		// Spaces go with the token.
		{[]addedToken{left}, "a \t\u00a0<l> b", "a[ \t\u00a0<l>] b"},
		{[]addedToken{right}, "a <r> \n b", "a [<r> \n ]b"},
		{[]addedToken{left, right}, "<r>  <l>x", "[<r>  ][<l>]x"},
		{[]addedToken{left}, "  <l>", "[  <l>]"},
		{[]addedToken{right}, "<r>  ", "[<r>  ]"},
		// A word by itself, not a part of one.
		{[]addedToken{word}, "the other the, _the the1 thé the", "[the] other [the], _the the1 thé [the]"},
		{[]addedToken{word}, "the\u0301 the\u200d the!", "the\u0301 the\u200d [the]!"},
		// What is no token because of its neighbours is not looked into.
		{[]addedToken{word, {Content: "he"}}, "other he", "other [he]"},
		{[]addedToken{{Content: "she", SingleWord: true}, {Content: "he"}}, "ashes he", "ashes [he]"},
	} {
		if got := cutAll(t, c.text, c.tokens...); got != c.want {
			t.Errorf("%q: got %q, want %q", c.text, got, c.want)
		}
	}
}

func TestTheLongestTokenIsFoundAmongMany(t *testing.T) {
	r := rand.New(rand.NewPCG(70, 71))
	letters := func(n int) string {
		b := make([]byte, 1+r.IntN(n))
		for i := range b {
			b[i] = "ab\xc3"[r.IntN(3)]
		}
		return string(b)
	}
	for range 300 {
		unique := map[string]bool{}
		var tokens []addedToken
		for range r.IntN(40) {
			if c := letters(6); !unique[c] {
				unique[c] = true
				tokens = append(tokens, addedToken{Content: c})
			}
		}
		s, err := newAddedSet(tokens)
		if err != nil {
			t.Fatal(err)
		}
		text := letters(30)
		for i := range len(text) {
			want := ""
			for c := range unique {
				if strings.HasPrefix(text[i:], c) && len(c) > len(want) {
					want = c
				}
			}
			got := ""
			if k := s.longestAt(text, i); k >= 0 {
				got = s.tokens[k].Content
			}
			if got != want || got != "" && s.begin(text, i) != i {
				t.Fatalf("%q at %d: got %q, want %q", text, i, got, want)
			}
		}
	}
}

// In normalized text two tokens may be one.
func TestTokensThatNormalizeToOneAreRefused(t *testing.T) {
	_, _, err := splitAdded([]addedToken{{Content: "\u00e9", Normalized: true}, {Content: "e\u0301", Normalized: true}}, true)
	if !errors.Is(err, ErrUnsupported) {
		t.Errorf("%v", err)
	}
	if _, _, err := splitAdded([]addedToken{{Content: "\u00e9"}, {Content: "e\u0301", Normalized: true}}, true); err != nil {
		t.Errorf("one is looked for before normalizing, one behind it: %v", err)
	}
}
