package bpe

import (
	"sync"
	"unicode"
	"unicode/utf8"
)

// class is what the patterns ask of a character.
type class uint8

const (
	sign   class = iota // [^\s\p{L}\p{N}]
	letter              // \p{L}
	number              // \p{N}
	space               // \s: Unicode's White_Space
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
	case unicode.IsLetter(r):
		return letter
	case unicode.IsNumber(r):
		return number
	case unicode.IsSpace(r):
		return space
	}
	return sign
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

// run gives the end of the run of characters of a class that begins at s[i:].
func (c reader) run(s string, i int, of class) int {
	for i < len(s) {
		is, n := c.at(s, i)
		if is != of {
			break
		}
		i += n
	}
	return i
}
