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

// firstWord gives the length of the pattern's match at the beginning of s, or of the text before the next match.
func firstWord(n node, s string) int {
	for i := 0; i < len(s); i++ {
		found := 0
		if utf8.RuneStart(s[i]) && n(s, i, func(end int) bool { found = end; return end > i }) {
			if i > 0 {
				return i
			}
			return found
		}
	}
	return len(s)
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
	if p.takes(`\s`) {
		return unicode.IsSpace
	}
	if name, rest, ok := strings.Cut(p.rest, "}"); ok && (strings.HasPrefix(name, `\p{`) || strings.HasPrefix(name, `\P{`)) {
		p.rest = rest
		table, negated := unicode.Categories[name[3:]], name[1] == 'P'
		return func(r rune) bool { return unicode.Is(table, r) != negated }
	}
	if p.takes(`\r`) {
		return func(r rune) bool { return r == '\r' }
	}
	if p.takes(`\n`) {
		return func(r rune) bool { return r == '\n' }
	}
	p.takes(`\`) // what is escaped stands for itself
	want, n := utf8.DecodeRuneInString(p.rest)
	p.rest = p.rest[n:]
	if strings.HasPrefix(p.rest, "-") && !strings.HasPrefix(p.rest, "-]") {
		last, n := utf8.DecodeRuneInString(p.rest[1:])
		p.rest = p.rest[1+n:]
		return func(r rune) bool { return want <= r && r <= last }
	}
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
