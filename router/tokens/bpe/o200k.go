package bpe

// o200k is o200kRegex and tekkenRegex, which end a word where its case begins anew.
type o200k struct {
	reader
	digits      int
	contraction func(s string) int // what may stand at a word's end
}

const (
	head = upper | caseless | mark // [\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]
	tail = lower | caseless | mark // [\p{Ll}\p{Lm}\p{Lo}\p{M}]
)

func (p o200k) next(s string) int {
	first, n := p.at(s, 0)
	if end := p.word(s, first, n); end > 0 {
		return end + p.contraction(s[end:])
	}
	if first == number {
		return p.numbers(s, n, p.digits)
	}
	if n := p.signs(s, sign, isLineEndOrSlash); n > 0 {
		return n
	}
	return p.spacesAndLines(s)
}

// word gives the length of [^\r\n\p{L}\p{N}]?head*tail+|[^\r\n\p{L}\p{N}]?head+tail* at the beginning of s, whose first
// character is of a class and has n bytes; 0 if s does not begin so.
func (p o200k) word(s string, first class, n int) int {
	if first&letter != 0 {
		n = 0
	} else if !isPrefix(first, s[0]) {
		return 0
	}
	if end := p.withTail(s, n); end > 0 {
		return end
	}
	// A mark is a prefix, and if no tail follows it a word by itself.
	if first == mark {
		return n
	}
	if end := p.run(s, n, head); end > n {
		return end
	}
	return 0
}

// withTail gives the end of head*tail+ at s[i:], or 0. What both have, the head leaves to the tail only if it must: then the
// word ends behind the last of it.
func (p o200k) withTail(s string, i int) int {
	end := 0
	for i < len(s) {
		is, n := p.at(s, i)
		if is == lower {
			return p.run(s, i+n, tail)
		}
		if is&head == 0 {
			break
		}
		i += n
		if is&tail != 0 {
			end = i
		}
	}
	return end
}

func isLineEndOrSlash(b byte) bool { return isLineEnd(b) || b == '/' }
