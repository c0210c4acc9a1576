package httpapi

import "encoding/json"

// parseCompletion judges a body of /v1/completions.
func (t reader) parseCompletion(body []byte) (*job, *apiError) {
	var request struct {
		sampling
		Prompt json.RawMessage `json:"prompt"`
		Add    *bool           `json:"add_special_tokens"`
	}
	if err := unmarshal(body, &request); err != nil {
		return nil, err
	}
	t.bare = request.Add != nil && !*request.Add && !t.always
	prompts, err := t.parsePrompts("prompt", request.Prompt)
	if err != nil {
		return nil, err
	}
	j := &job{prompts: prompts, maxTokens: defaultCompletionTokens, format: completionFormat{}}
	return j, request.apply(j)
}

// completionFormat renders text_completion, whose chunks look like the whole.
type completionFormat struct{}

type completionChoice struct {
	Index        int       `json:"index"`
	Text         string    `json:"text"`
	Logprobs     *struct{} `json:"logprobs"`
	FinishReason *string   `json:"finish_reason"`
}

type completionBody struct {
	head
	Choices []completionChoice `json:"choices"`
	Usage   *usage             `json:"usage,omitempty"`
}

func (completionFormat) chunk(h head, choices []completionChoice, u *usage) any {
	h.Object = "text_completion"
	return completionBody{head: h, Choices: choices, Usage: u}
}

func (completionFormat) open(head, int) any { return nil }

func (f completionFormat) delta(h head, a *answer, from, to int) any {
	return f.chunk(h, []completionChoice{{Index: a.index, Text: a.text[from:to]}}, nil)
}

func (f completionFormat) close(h head, a *answer) any {
	return f.chunk(h, []completionChoice{{Index: a.index, FinishReason: &a.finish}}, nil)
}

func (f completionFormat) usage(h head, u usage) any { return f.chunk(h, []completionChoice{}, &u) }

func (f completionFormat) whole(h head, answers []*answer, u usage) any {
	choices := make([]completionChoice, 0, len(answers))
	for _, a := range answers {
		choices = append(choices, completionChoice{Index: a.index, Text: a.text, FinishReason: &a.finish})
	}
	return f.chunk(h, choices, &u)
}

func (completionFormat) idPrefix() string { return "cmpl-" }
