package bpe

// Regexes are the expressions that are known, by the name of whose they are.
var Regexes = map[string]string{
	"gpt-2": gpt2Regex, "llama-3": llama3Regex, "qwen-2": qwen2Regex, "qwen-3.5": qwen35Regex, "o200k": o200kRegex, "tekken": tekkenRegex,
	"deepseek-digits": digitsRegex, "deepseek-han": hanRegex, "deepseek": deepseekRegex,
}

// Words cuts text by a known expression and gives the ends of the words.
func Words(regex, text string) (ends []int) {
	p, err := patternOf(regex)
	if err != nil {
		panic(err)
	}
	for at := 0; at < len(text); {
		at += p.next(text[at:])
		ends = append(ends, at)
	}
	return ends
}
