package bpe_test

import (
	"math/rand/v2"
	"slices"
	"testing"
	"unicode/utf8"

	"github.com/routerfleet/routerfleet/router/tokens/bpe"
)

func TestEveryPatternEqualsItsExpression(t *testing.T) {
	r := rand.New(rand.NewPCG(50, 51))
	var documents []string
	for range 100 {
		documents = append(documents, document(r))
	}
	for name, regex := range bpe.Regexes {
		n := parse(regex)
		for _, d := range documents {
			var want []int
			for at := 0; at < len(d); {
				at += firstWord(n, d[at:])
				want = append(want, at)
			}
			if got := bpe.Words(regex, d); !slices.Equal(got, want) {
				t.Fatalf("%s cuts %q at %v, want %v", name, d, got, want)
			}
		}
	}
}

func FuzzWords(f *testing.F) {
	nodes := map[string]node{}
	for _, regex := range bpe.Regexes {
		nodes[regex] = parse(regex)
	}
	for _, s := range fragments {
		f.Add(s + "a" + s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if !utf8.ValidString(s) || len(s) > maxFuzzedText {
			return
		}
		for regex, n := range nodes {
			at := 0
			for _, end := range bpe.Words(regex, s) {
				if at += firstWord(n, s[at:]); at != end {
					t.Fatalf("%.40s cuts %q at %d, want %d", regex, s, end, at)
				}
			}
		}
	})
}
