package bpe

import "strings"

// gpt2 is gpt2Regex.
type gpt2 struct{ reader }

func (p gpt2) next(s string) int {
	if n := contraction(s); n > 0 {
		return n
	}
	i := 0
	if s[0] == ' ' && len(s) > 1 {
		i = 1
	}
	switch is, _ := p.at(s, i); {
	case is&letter != 0:
		return p.run(s, i, letter)
	case is == number:
		return p.run(s, i, number)
	case is&sign != 0:
		return p.run(s, i, sign)
	}
	return p.spaces(s)
}

// contraction gives the length of 's|'t|'re|'ve|'m|'ll|'d at the beginning of s.
func contraction(s string) int {
	if s[0] != '\'' || len(s) < 2 {
		return 0
	}
	switch s[1] {
	case 's', 't', 'm', 'd':
		return 2
	}
	if strings.HasPrefix(s[1:], "re") || strings.HasPrefix(s[1:], "ve") || strings.HasPrefix(s[1:], "ll") {
		return 3
	}
	return 0
}

// longS is the one character beyond ASCII that is equal to a letter of the contractions when case is ignored: an s.
const longS = "\u017f"

// foldedContraction gives the length of (?i:'s|'t|'re|'ve|'m|'ll|'d) at the beginning of s.
func foldedContraction(s string) int {
	if len(s) < 2 || s[0] != '\'' {
		return 0
	}
	const lowerBit = 'a' - 'A' // by which ASCII letters differ in case
	first := s[1] | lowerBit
	switch first {
	case 's', 't', 'm', 'd':
		return 2
	}
	if strings.HasPrefix(s[1:], longS) {
		return 1 + len(longS)
	}
	if len(s) < 3 {
		return 0
	}
	switch second := s[2] | lowerBit; {
	case (first == 'r' || first == 'v') && second == 'e', first == 'l' && second == 'l':
		return 3
	}
	return 0
}

func noContraction(string) int { return 0 }
