package httpapi

import (
	"strings"

	"github.com/routerfleet/routerfleet/test/enginesim"
	"github.com/routerfleet/routerfleet/test/enginesim/tokenizer"
)

// The finish reasons of OpenAI and SGLang.
const (
	finishLength = "length"
	finishStop   = "stop"
)

// answer is one choice of one prompt: what it will say is known before it is
// produced, since the double has no model to ask.
type answer struct {
	index  int // of the choice in the whole response
	prompt []uint32
	output []uint32 // what the engine produces
	text   string   // what the client sees: output up to a stop string, a byte a token
	finish string
	stream *enginesim.Stream // nil until submitted
}

// plan makes the answers of a job, choices of one prompt side by side as OpenAI
// orders them.
func (j *job) plan() []*answer {
	answers := make([]*answer, 0, len(j.prompts)*j.choices)
	for _, prompt := range j.prompts {
		for choice := range j.choices {
			answers = append(answers, j.answer(prompt, choice, len(answers)))
		}
	}
	return answers
}

func (j *job) answer(prompt []uint32, choice, index int) *answer {
	a := &answer{index: index, prompt: prompt, output: enginesim.Answer(prompt, choice, j.maxTokens), finish: finishLength}
	if j.natural {
		a.finish = finishStop
	}
	a.text = tokenizer.Decode(a.output)
	a.stopAtFirst(j.stops)
	return a
}

// stopAtFirst cuts the answer at the stop string that is complete first: the
// engine produces it, the client does not see it.
func (a *answer) stopAtFirst(stops []string) {
	end, start := len(a.text)+1, 0
	for _, stop := range stops {
		at := strings.Index(a.text, stop)
		if at >= 0 && at+len(stop) < end {
			end, start = at+len(stop), at
		}
	}
	if end > len(a.text) {
		return
	}
	a.output, a.text, a.finish = a.output[:end], a.text[:start], finishStop
}

// usage is OpenAI's token count of a whole response.
type usage struct {
	PromptTokens     int           `json:"prompt_tokens"`
	CompletionTokens int           `json:"completion_tokens"`
	TotalTokens      int           `json:"total_tokens"`
	Details          promptDetails `json:"prompt_tokens_details"`
}

type promptDetails struct {
	CachedTokens int `json:"cached_tokens"`
}

// usageOf sums the answers. A prompt counts once however many choices it has,
// with the cached tokens of its first one: the others find it in the cache.
func usageOf(answers []*answer, choices int) usage {
	var u usage
	for i, a := range answers {
		cached, produced := a.stream.Usage()
		u.CompletionTokens += produced
		if i%choices == 0 {
			u.PromptTokens += len(a.prompt)
			u.Details.CachedTokens += cached
		}
	}
	u.TotalTokens = u.PromptTokens + u.CompletionTokens
	return u
}
