package bpe

import (
	"math/rand/v2"
	"strings"
	"testing"

	"golang.org/x/text/unicode/norm"
)

// Characters that compose, decompose, are ordered or excluded.
var marked = []rune("aeiouAOK\u212b\u00e9\u1e69\u0958\u0344\u0f73\u0f71\u0301\u0323\u0307\u0308\u031b\u0345\u05b0\u3099\u304b\u1112\u1161\u11ab\uac00\u11a8\u09c7\u09be\u0dd9\u0dcf\u0dca\U0001d15e\U0001d165\u0061\u0315\u0300\u05ae\u0009 \n")

func marks(r *rand.Rand, n int) string {
	var b strings.Builder
	for range n {
		b.WriteRune(marked[r.IntN(len(marked))])
	}
	return b.String()
}

func TestComposingSlowlyEqualsPackageNorm(t *testing.T) {
	r := rand.New(rand.NewPCG(14, 15))
	changed := 0
	for range 20_000 {
		s := marks(r, 1+r.IntN(9)) // too short for 30 marks
		want := norm.NFC.String(s)
		if got := composeSlowly(s); got != want {
			t.Fatalf("%+q: got %+q, want %+q", s, got, want)
		}
		if want != s {
			changed++
		}
	}
	if changed < 5000 {
		t.Errorf("%d texts were changed by it", changed)
	}
}

// The standard knows no limit; package norm puts U+034F behind 30 marks. Both rows begin with a mark that must move or join.
func TestNormalizingBreaksUpNoRowOfMarks(t *testing.T) {
	for in, want := range map[string]string{
		"e" + strings.Repeat("\u0301", 100):                  "\u00e9" + strings.Repeat("\u0301", 99),
		"e" + strings.Repeat("\u0301\u0323", 40):             "\u1eb9" + strings.Repeat("\u0323", 39) + strings.Repeat("\u0301", 40),
		"e" + strings.Repeat("\u0301", 31) + "\u0323":        "\u1eb9" + strings.Repeat("\u0301", 31),
		strings.Repeat("\u0344", 20):                         strings.Repeat("\u0308\u0301", 20),
		"\u1112" + strings.Repeat("\u1161", 40):              "\ud558" + strings.Repeat("\u1161", 39),
		strings.Repeat("x"+strings.Repeat("\u0301", 29), 50): strings.Repeat("x"+strings.Repeat("\u0301", 29), 50),
	} {
		if got := nfc(in); got != want || strings.ContainsRune(norm.NFC.String(want), '\u034f') && strings.ContainsRune(got, '\u034f') {
			t.Errorf("%.30q...: got %+q", in, got)
		}
	}
}

func FuzzNFCIsStableAndKeepsTheText(f *testing.F) {
	r := rand.New(rand.NewPCG(16, 17))
	for n := range 50 {
		f.Add(marks(r, n))
	}
	f.Fuzz(func(t *testing.T, s string) {
		if check(s) != nil {
			return
		}
		got := nfc(s)
		if nfc(got) != got {
			t.Errorf("%+q is normalized to %+q, which is not normal", s, got)
		}
		if want := composeSlowly(s); got != want {
			t.Errorf("%+q: got %+q, slowly %+q", s, got, want)
		}
	})
}
