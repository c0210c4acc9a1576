package bpe

// cl100k is llama3Regex, qwen2Regex and qwen35Regex, which differ in how many digits make a word and in whether marks
// belong to words or to signs.
type cl100k struct {
	reader
	digits       int
	words, signs class
}

func (p cl100k) next(s string) int {
	if n := foldedContraction(s); n > 0 {
		return n
	}
	// [^\r\n\p{L}\p{N}]?[words]+
	first, n := p.at(s, 0)
	if first&p.words != 0 {
		return p.run(s, n, p.words)
	}
	if isPrefix(first, s[0]) && p.is(s, n, p.words) {
		return p.run(s, n, p.words)
	}
	if first == number {
		return p.numbers(s, n, p.digits)
	}
	if n := p.reader.signs(s, p.signs, isLineEnd); n > 0 {
		return n
	}
	return p.spacesAndLines(s)
}
