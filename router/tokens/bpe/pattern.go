package bpe

import "strings"

// pattern cuts text into words, as a regular expression of tokenizer.json does. The expressions have a lookahead, which
// package regexp lacks, and are few: each is written out by hand and known by its text.
type pattern struct {
	// next gives the length of the first word of s, which is valid UTF-8 and not empty.
	next func(s string) int
	// endsAtLines promises that a word which ends with a line's end does so whatever follows it, unless that is a space:
	// text may be cut there and each part be encoded for itself.
	endsAtLines bool
}

// The expressions that are known, as they stand in files.
const (
	gpt2Regex = `'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`

	llama3Regex = `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
	qwen2Regex  = `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
)

// patternOf gives the pattern of a regular expression.
func patternOf(regex string) (pattern, error) {
	c := reader{classes()}
	switch regex {
	case gpt2Regex:
		return pattern{next: gpt2{c}.next}, nil
	case llama3Regex:
		return pattern{next: cl100k{c, 3}.next, endsAtLines: true}, nil
	case qwen2Regex:
		return pattern{next: cl100k{c, 1}.next, endsAtLines: true}, nil
	}
	return pattern{}, unsupported("the pre-tokenizer splits by the expression %.200q; the known ones are those of GPT-2, Llama 3 and Qwen", regex)
}

// gpt2 is gpt2Regex, which ByteLevel has built in.
type gpt2 struct{ reader }

func (p gpt2) next(s string) int {
	if n := contraction(s); n > 0 {
		return n
	}
	i := 0
	if s[0] == ' ' && len(s) > 1 {
		i = 1
	}
	if of, _ := p.at(s, i); of != space {
		return p.run(s, i, of)
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

// spaces is \s+(?!\S)|\s+: a run of spaces, without its last one if text follows it, for that belongs to the next word.
func (c reader) spaces(s string) int {
	end, last := 0, 0
	for end < len(s) {
		is, n := c.at(s, end)
		if is != space {
			break
		}
		last = end
		end += n
	}
	if end < len(s) && last > 0 {
		return last
	}
	return end
}

// cl100k is llama3Regex and qwen2Regex, which differ in how many digits make a word.
type cl100k struct {
	reader
	digits int
}

func (p cl100k) next(s string) int {
	if n := foldedContraction(s); n > 0 {
		return n
	}
	first, n := p.at(s, 0)
	// [^\r\n\p{L}\p{N}]?\p{L}+
	if first == letter {
		return p.run(s, n, letter)
	}
	if first != number && s[0] != '\r' && s[0] != '\n' && n < len(s) {
		if is, m := p.at(s, n); is == letter {
			return p.run(s, n+m, letter)
		}
	}
	if first == number {
		return p.number(s, n)
	}
	//  ?[^\s\p{L}\p{N}]+[\r\n]*
	i := 0
	if s[0] == ' ' {
		i = 1
	}
	if end := p.run(s, i, sign); end > i {
		return end + lineEnds(s[end:])
	}
	return p.spacesAndLines(s)
}

// number gives the length of \p{N}{1,digits} whose first character has n bytes.
func (p cl100k) number(s string, n int) int {
	for range p.digits - 1 {
		if n == len(s) {
			break
		}
		is, m := p.at(s, n)
		if is != number {
			break
		}
		n += m
	}
	return n
}

// spacesAndLines is \s*[\r\n]+|\s+(?!\S)|\s+, where s begins with a space: a run of spaces up to its last line end.
func (p cl100k) spacesAndLines(s string) int {
	end := p.run(s, 0, space)
	if i := strings.LastIndexAny(s[:end], "\r\n"); i >= 0 {
		return i + 1
	}
	return p.spaces(s)
}

// lineEnds counts the bytes of [\r\n]* at the beginning of s.
func lineEnds(s string) int {
	i := 0
	for i < len(s) && (s[i] == '\r' || s[i] == '\n') {
		i++
	}
	return i
}

// longS is the one character beyond ASCII that is equal to a letter of the contractions when case is ignored: an s.
const longS = "\u017f"

// foldedContraction gives the length of (?i:'s|'t|'re|'ve|'m|'ll|'d) at the beginning of s.
func foldedContraction(s string) int {
	if s[0] != '\'' || len(s) < 2 {
		return 0
	}
	const lower = 'a' - 'A' // the bit by which ASCII letters differ in case
	first := s[1] | lower
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
	switch second := s[2] | lower; {
	case (first == 'r' || first == 'v') && second == 'e', first == 'l' && second == 'l':
		return 3
	}
	return 0
}

// digits is the pre-tokenizer Digits: numbers apart from everything else.
type digits struct {
	reader
	individual bool
}

func (p digits) next(s string) int {
	first, n := p.at(s, 0)
	if first == number {
		if p.individual {
			return n
		}
		return p.run(s, n, number)
	}
	for n < len(s) {
		is, m := p.at(s, n)
		if is == number {
			break
		}
		n += m
	}
	return n
}
