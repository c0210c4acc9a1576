package bpe

import "unicode/utf8"

// digits is digitsRegex and the pre-tokenizer Digits: numbers, up to most characters at once, apart from everything else.
type digits struct {
	reader
	most int
}

func (p digits) next(s string) int {
	if first, n := p.at(s, 0); first == number {
		return p.numbers(s, n, p.most)
	}
	return p.run(s, 0, ^number)
}

// han is hanRegex: runs of Han and kana apart from everything else.
func han(s string) int {
	first, n := utf8.DecodeRuneInString(s)
	for n < len(s) {
		r, m := utf8.DecodeRuneInString(s[n:])
		if isHan(r) != isHan(first) {
			break
		}
		n += m
	}
	return n
}

func isHan(r rune) bool {
	return r >= 0x4e00 && r <= 0x9fa5 || r >= 0x3040 && r <= 0x30ff
}

// deepseek is deepseekRegex. It leaves out numbers and what is neither letter, sign nor space.
type deepseek struct{ reader }

func (p deepseek) next(s string) int {
	for i := 0; i < len(s); {
		if n := p.match(s[i:]); n > 0 && i == 0 {
			return n
		} else if n > 0 {
			return i
		}
		_, n := p.at(s, i)
		i += n
	}
	return len(s)
}

// match gives the length of a match at the beginning of s, or 0.
func (p deepseek) match(s string) int {
	first, n := p.at(s, 0)
	switch {
	case first == symbol && n == 1 && len(s) > 1 && isASCIILetter(s[1]):
		end := 2
		for end < len(s) && isASCIILetter(s[end]) {
			end++
		}
		return end
	case first&(letter|mark) != 0:
		return p.run(s, n, letter|mark)
	case first != symbol && !isLineEnd(s[0]) && p.is(s, n, letter|mark):
		return p.run(s, n, letter|mark)
	}
	if n := p.signs(s, symbol, isLineEnd); n > 0 {
		return n
	}
	if first == space {
		return p.spacesAndLines(s)
	}
	return 0
}

func isASCIILetter(b byte) bool { b |= 'a' - 'A'; return b >= 'a' && b <= 'z' }
