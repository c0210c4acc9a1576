package bpe

// pattern cuts text into words, as a regular expression of tokenizer.json does. The expressions have a lookahead, which
// package regexp lacks, and are few: each is written out by hand and known by its text.
type pattern struct {
	// next gives the length of the first word of s, which is valid UTF-8 and not empty. Text that the expression leaves out
	// is a word of its own.
	next func(s string) int
	// whole promises that the expression leaves nothing out.
	whole bool
	// endsAtLines promises that a word which ends with a line's end does so whatever follows it, if that begins anew (see
	// run.beginsAnew): text may be cut there and each part be encoded for itself.
	endsAtLines bool
}

// The expressions that are known, as they stand in files.
const (
	// GPT-2, and ByteLevel itself.
	gpt2Regex = `'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`

	// Llama 3, GLM 4, Phi 4.
	llama3Regex = `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
	// Qwen 2, 2.5 and 3.
	qwen2Regex = `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
	// Qwen 3.5.
	qwen35Regex = `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`

	// gpt-oss, Llama 4.
	o200kRegex = `[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+`
	// Mistral's Tekken.
	tekkenRegex = `[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+`

	// DeepSeek V3 splits by three, one after the other.
	digitsRegex   = `\p{N}{1,3}`
	hanRegex      = "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+"
	deepseekRegex = "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
)

// patternOf gives the pattern of a regular expression.
func patternOf(regex string) (pattern, error) {
	c := reader{classes()}
	switch regex {
	case gpt2Regex:
		return pattern{next: gpt2{c}.next, whole: true}, nil
	case llama3Regex:
		return pattern{next: cl100k{c, 3, letter, sign}.next, whole: true, endsAtLines: true}, nil
	case qwen2Regex:
		return pattern{next: cl100k{c, 1, letter, sign}.next, whole: true, endsAtLines: true}, nil
	case qwen35Regex:
		return pattern{next: cl100k{c, 1, letter | mark, sign &^ mark}.next, whole: true, endsAtLines: true}, nil
	case o200kRegex:
		return pattern{next: o200k{c, 3, foldedContraction}.next, whole: true, endsAtLines: true}, nil
	case tekkenRegex:
		return pattern{next: o200k{c, 1, noContraction}.next, whole: true, endsAtLines: true}, nil
	case digitsRegex:
		return pattern{next: digits{c, 3}.next}, nil
	case hanRegex:
		return pattern{next: han}, nil
	case deepseekRegex:
		return pattern{next: deepseek{c}.next}, nil
	}
	return pattern{}, unsupported("the pre_tokenizer splits by the expression %.200q; the known ones are those of GPT-2, Llama 3 and 4, gpt-oss, Qwen 2 to 3.5, Tekken and DeepSeek V3", regex)
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

// spacesAndLines is \s*[\r\n]+|\s+(?!\S)|\s+, where s begins with a space: a run of spaces up to its last line end.
func (c reader) spacesAndLines(s string) int {
	end := c.run(s, 0, space)
	for i := end; i > 0; i-- {
		if isLineEnd(s[i-1]) {
			return i
		}
	}
	return c.spaces(s)
}

func isLineEnd(b byte) bool { return b == '\r' || b == '\n' }

// signs is  ?[signs]+ with the bytes of trailing behind, and 0 if s does not begin so.
func (c reader) signs(s string, set class, trailing func(byte) bool) int {
	i := 0
	if s[0] == ' ' {
		i = 1
	}
	end := c.run(s, i, set)
	if end == i {
		return 0
	}
	for end < len(s) && trailing(s[end]) {
		end++
	}
	return end
}

// numbers is \p{N}{1,most}, where the first character has n bytes and is one.
func (c reader) numbers(s string, n, most int) int {
	for range most - 1 {
		if !c.is(s, n, number) {
			break
		}
		_, m := c.at(s, n)
		n += m
	}
	return n
}

// isPrefix says whether [^\r\n\p{L}\p{N}] is a character of a class that begins with a byte.
func isPrefix(is class, first byte) bool { return is&(letter|number) == 0 && !isLineEnd(first) }
