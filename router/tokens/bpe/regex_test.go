package bpe_test

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// A backtracking matcher for the part of regular expressions that tokenizer.json files use, slow and as the book has it:
// the first alternative that matches wins, repetitions take as much as they can and give back one at a time.

// node matches at s[i:] and calls then with each end, best first, until then says yes.
type node func(s string, i int, then func(end int) bool) bool

// longestOrder gives the length of the pattern's match at the beginning of s; patterns match everywhere.
func longestOrder(n node, s string) int {
	found := 0
	n(s, 0, func(end int) bool { found = end; return true })
	if found == 0 {
		panic("no match at " + s)
	}
	return found
}

// parser reads a pattern.
type parser struct {
	rest string
	fold bool
}

func parse(pattern string) node {
	p := &parser{rest: pattern}
	n := p.alternatives()
	if p.rest != "" {
		panic("left over: " + p.rest)
	}
	return n
}

func (p *parser) takes(prefix string) bool {
	rest, ok := strings.CutPrefix(p.rest, prefix)
	p.rest = rest
	return ok
}

func (p *parser) alternatives() node {
	all := []node{p.sequence()}
	for p.takes("|") {
		all = append(all, p.sequence())
	}
	return func(s string, i int, then func(int) bool) bool {
		for _, n := range all {
			if n(s, i, then) {
				return true
			}
		}
		return false
	}
}

func (p *parser) sequence() node {
	empty := func(_ string, i int, then func(int) bool) bool { return then(i) }
	if p.rest == "" || p.rest[0] == '|' || p.rest[0] == ')' {
		return empty
	}
	first := p.repeated()
	rest := p.sequence()
	return func(s string, i int, then func(int) bool) bool {
		return first(s, i, func(end int) bool { return rest(s, end, then) })
	}
}

func (p *parser) repeated() node {
	n := p.one()
	switch {
	case p.takes("?"):
		return repeat(n, 0, 1)
	case p.takes("+"):
		return repeat(n, 1, 1<<30)
	case p.takes("*"):
		return repeat(n, 0, 1<<30)
	case strings.HasPrefix(p.rest, "{"):
		bounds, rest, _ := strings.Cut(p.rest[1:], "}")
		lo, hi, _ := strings.Cut(bounds, ",")
		p.rest = rest
		least, _ := strconv.Atoi(lo)
		most, _ := strconv.Atoi(hi)
		return repeat(n, least, most)
	}
	return n
}

// repeat is greedy. It does not recurse a repetition, as texts have long ones: n must match in one way only.
func repeat(n node, least, most int) node {
	return func(s string, i int, then func(int) bool) bool {
		ends := []int{i}
		for len(ends) <= most {
			at := ends[len(ends)-1]
			if !n(s, at, func(end int) bool { ends = append(ends, end); return true }) {
				break
			}
		}
		for k := len(ends) - 1; k >= least; k-- {
			if then(ends[k]) {
				return true
			}
		}
		return false
	}
}

func (p *parser) one() node {
	switch {
	case p.takes("(?i:"):
		p.fold = true
		n := p.alternatives()
		p.fold = false
		p.takes(")")
		return n
	case p.takes(`(?!\S)`):
		return func(s string, i int, then func(int) bool) bool {
			r, _ := utf8.DecodeRuneInString(s[i:])
			return (i == len(s) || unicode.IsSpace(r)) && then(i)
		}
	case p.takes("[^"):
		var members []func(rune) bool
		for !p.takes("]") {
			members = append(members, p.set())
		}
		return character1(func(r rune) bool {
			for _, m := range members {
				if m(r) {
					return false
				}
			}
			return true
		})
	case p.takes("["):
		var members []func(rune) bool
		for !p.takes("]") {
			members = append(members, p.set())
		}
		return character1(func(r rune) bool {
			for _, m := range members {
				if m(r) {
					return true
				}
			}
			return false
		})
	}
	return character1(p.set())
}

// set reads one character or a name of several.
func (p *parser) set() func(rune) bool {
	for name, is := range map[string]func(rune) bool{
		`\p{L}`: unicode.IsLetter, `\p{N}`: unicode.IsNumber, `\s`: unicode.IsSpace,
		`\P{N}`: func(r rune) bool { return !unicode.IsNumber(r) },
		`\r`:    func(r rune) bool { return r == '\r' }, `\n`: func(r rune) bool { return r == '\n' },
	} {
		if p.takes(name) {
			return is
		}
	}
	want, n := utf8.DecodeRuneInString(p.rest)
	p.rest = p.rest[n:]
	fold := p.fold
	return func(r rune) bool {
		if r == want {
			return true
		}
		for f := unicode.SimpleFold(want); fold && f != want; f = unicode.SimpleFold(f) {
			if r == f {
				return true
			}
		}
		return false
	}
}

func character1(is func(rune) bool) node {
	return func(s string, i int, then func(int) bool) bool {
		r, n := utf8.DecodeRuneInString(s[i:])
		return n > 0 && is(r) && then(i+n)
	}
}
