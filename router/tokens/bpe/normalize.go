package bpe

import (
	"slices"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// manyMarks is how many combining characters in a row make nfc go its slow way. Package norm follows UAX 15's stream-safe
// text and puts a character of its own behind 30 of them, which no reference does; a character decomposes to three at most.
// Combining is here whatever may join what stands before it, as some vowels do that are letters.
const manyMarks = 8

// nfc gives the Normalization Form C of s.
func nfc(s string) string {
	room := len(s)
	s, _ = nfcWithin(s, &room)
	return s
}

// nfcWithin is nfc where the slow way takes its bytes from room. It is false where there is not enough.
func nfcWithin(s string, room *int) (string, bool) {
	switch {
	case norm.NFC.QuickSpanString(s) == len(s):
		return s, true
	case !hasManyMarks(s):
		return norm.NFC.String(s), true
	case len(s) > *room:
		return "", false
	}
	*room -= len(s)
	return composeSlowly(s), true
}

// hasManyMarks says whether s has manyMarks combining characters in a row.
func hasManyMarks(s string) bool {
	row := 0
	for i := 0; i < len(s); {
		if s[i] < utf8.RuneSelf {
			row = 0
			i++
			continue
		}
		p := norm.NFC.PropertiesString(s[i:])
		if p.BoundaryBefore() {
			row = 0
		} else if row++; row == manyMarks {
			return true
		}
		i += max(1, p.Size())
	}
	return false
}

// point is a character with its canonical combining class.
type point struct {
	r   rune
	ccc uint8
}

// composeSlowly is nfc as the standard (UAX 15) describes it: decompose, order the marks, compose.
func composeSlowly(s string) string {
	var all []point
	for _, r := range s {
		if r < utf8.RuneSelf { // nothing to decompose, no mark
			all = append(all, point{r: r})
			continue
		}
		for _, d := range norm.NFD.String(string(r)) {
			all = append(all, point{d, norm.NFD.PropertiesString(string(d)).CCC()})
		}
	}
	order(all)
	return string(compose(all))
}

// order sorts each row of combining characters by class, keeping the order of equals.
func order(all []point) {
	for i := 0; i < len(all); i++ {
		end := i
		for end < len(all) && all[end].ccc != 0 {
			end++
		}
		slices.SortStableFunc(all[i:end], func(a, b point) int { return int(a.ccc) - int(b.ccc) })
		i = end
	}
}

// compose puts each character into the starter before it if both are one character and nothing between them blocks it.
func compose(all []point) []rune {
	var out []rune
	starter := -1
	last := uint8(0) // the class of what stands last in out; 0 if that is the starter
	for _, m := range all {
		if starter >= 0 && (last == 0 || last < m.ccc) {
			if r, ok := composed(out[starter], m.r); ok {
				out[starter] = r
				continue
			}
		}
		if m.ccc == 0 {
			starter = len(out)
		}
		last = m.ccc
		out = append(out, m.r)
	}
	return out
}

// composed gives the one character that two are composed to, if there is.
func composed(a, b rune) (rune, bool) {
	if b < 0x300 { // the first block of combining characters
		return 0, false
	}
	s := norm.NFC.String(string([]rune{a, b}))
	r, n := utf8.DecodeRuneInString(s)
	return r, n == len(s)
}
