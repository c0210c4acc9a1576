package bpe

import (
	"sync"
	"unicode"
	"unicode/utf8"
)

// class is what the patterns ask of a character. Each character is of one; sets of them are or-ed together.
type class uint8

const (
	upper    class = 1 << iota // \p{Lu}\p{Lt}
	lower                      // \p{Ll}
	caseless                   // \p{Lm}\p{Lo}
	mark                       // \p{M}
	number                     // \p{N}
	space                      // \s: Unicode's White_Space
	symbol                     // \p{P}\p{S}
	other                      // what is left: controls, joiners, what is not assigned

	letter = upper | lower | caseless // \p{L}
	sign   = mark | symbol | other    // [^\s\p{L}\p{N}]
)

// classes are those of the basic multilingual plane: range tables are too slow to ask for each character. Their Unicode
// version is that of Go's unicode package.
var classes = sync.OnceValue(func() *[1 << 16]class {
	table := new([1 << 16]class)
	for r := range rune(len(table)) {
		table[r] = classify(r)
	}
	return table
})

func classify(r rune) class {
	switch {
	case unicode.In(r, unicode.Lu, unicode.Lt):
		return upper
	case unicode.Is(unicode.Ll, r):
		return lower
	case unicode.IsLetter(r):
		return caseless
	case unicode.IsMark(r):
		return mark
	case unicode.IsNumber(r):
		return number
	case unicode.IsSpace(r):
		return space
	case unicode.In(r, unicode.P, unicode.S):
		return symbol
	}
	return other
}

// reader gives the characters of text that is valid UTF-8, with their classes.
type reader struct{ table *[1 << 16]class }

// at gives the class of the character at s[i:], which is not empty, and its length in bytes.
func (c reader) at(s string, i int) (class, int) {
	if b := s[i]; b < utf8.RuneSelf {
		return c.table[b], 1
	}
	r, n := utf8.DecodeRuneInString(s[i:])
	if r < 1<<16 {
		return c.table[r], n
	}
	return classify(r), n
}

// is says whether s[i:] begins with a character of a set.
func (c reader) is(s string, i int, set class) bool {
	if i == len(s) {
		return false
	}
	class, _ := c.at(s, i)
	return class&set != 0
}

// run gives the end of the characters of a set that s[i:] begins with.
func (c reader) run(s string, i int, set class) int {
	for i < len(s) {
		class, n := c.at(s, i)
		if class&set == 0 {
			break
		}
		i += n
	}
	return i
}
