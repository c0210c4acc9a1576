package httpapi

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// defaultNewTokens is SGLang's max_new_tokens when none is given.
const defaultNewTokens = 128

// parseGenerate judges a body of SGLang's /generate.
func (t reader) parseGenerate(body []byte) (*job, *apiError) {
	var request struct {
		Text           json.RawMessage `json:"text"`
		InputIDs       json.RawMessage `json:"input_ids"`
		SamplingParams struct {
			MaxNewTokens *int            `json:"max_new_tokens"`
			N            *int            `json:"n"`
			Stop         json.RawMessage `json:"stop"`
			Temperature  *float64        `json:"temperature"`
			TopP         *float64        `json:"top_p"`
		} `json:"sampling_params"`
		Stream    bool   `json:"stream"`
		Model     string `json:"model"`
		CacheSalt string `json:"cache_salt"`
	}
	if err := unmarshal(body, &request); err != nil {
		return nil, err
	}
	param, raw := "text", request.Text
	if !isNull(request.InputIDs) {
		if !isNull(request.Text) {
			return nil, badRequest("input_ids", "Either text or input_ids can be provided, not both.")
		}
		param, raw = "input_ids", request.InputIDs
	}
	prompts, err := t.parsePrompts(param, raw)
	if err != nil {
		return nil, err
	}
	j := &job{prompts: prompts, maxTokens: defaultNewTokens}
	p := request.SamplingParams
	shared := sampling{
		Model: request.Model, N: p.N, MaxTokens: p.MaxNewTokens, Stop: p.Stop, Stream: request.Stream,
		Temperature: p.Temperature, TopP: p.TopP, CacheSalt: request.CacheSalt,
	}
	if err := shared.apply(j); err != nil {
		return nil, err
	}
	j.format = generateFormat{batch: isBatch(raw) || j.choices > 1}
	return j, nil
}

// isBatch tells a list of prompts, which is answered by a list, from one prompt;
// raw has passed parsePrompts.
func isBatch(raw json.RawMessage) bool {
	raw = bytes.TrimSpace(raw)
	if raw[0] != '[' {
		return false
	}
	inner := bytes.TrimSpace(raw[1:])
	return inner[0] == '"' || inner[0] == '['
}

// generateFormat renders SGLang's native answer. Its chunks are cumulative.
type generateFormat struct{ batch bool }

type generateFinish struct {
	Type   string `json:"type"`
	Length int    `json:"length,omitempty"`
}

type generateMeta struct {
	ID               string          `json:"id"`
	FinishReason     *generateFinish `json:"finish_reason"`
	PromptTokens     int             `json:"prompt_tokens"`
	CompletionTokens int             `json:"completion_tokens"`
	CachedTokens     int             `json:"cached_tokens"`
	DPRank           int             `json:"dp_rank"`
}

type generateBody struct {
	Text      string       `json:"text"`
	OutputIDs []uint32     `json:"output_ids"`
	Index     *int         `json:"index,omitempty"` // of a batch's streamed chunk
	Meta      generateMeta `json:"meta_info"`
}

func (f generateFormat) body(h head, a *answer, tokens int, finish *generateFinish) generateBody {
	cached, _ := a.stream.Usage()
	text := a.text[:min(tokens, len(a.text))]
	return generateBody{Text: text, OutputIDs: a.output[:tokens], Meta: generateMeta{
		ID: fmt.Sprintf("%s-%d", h.ID, a.index), FinishReason: finish, PromptTokens: len(a.prompt),
		CompletionTokens: tokens, CachedTokens: cached, DPRank: a.stream.Rank,
	}}
}

func (f generateFormat) indexed(b generateBody, index int) generateBody {
	if f.batch {
		b.Index = &index
	}
	return b
}

func (generateFormat) open(head, int) any { return nil }

func (f generateFormat) delta(h head, a *answer, _, to int) any {
	return f.indexed(f.body(h, a, to, nil), a.index)
}

func (f generateFormat) close(h head, a *answer) any {
	return f.indexed(f.body(h, a, len(a.output), a.generateFinish()), a.index)
}

func (generateFormat) usage(head, usage) any { return nil }

func (f generateFormat) whole(h head, answers []*answer, _ usage) any {
	bodies := make([]generateBody, 0, len(answers))
	for _, a := range answers {
		bodies = append(bodies, f.body(h, a, len(a.output), a.generateFinish()))
	}
	if !f.batch {
		return bodies[0]
	}
	return bodies
}

func (generateFormat) idPrefix() string { return "" }

func (a *answer) generateFinish() *generateFinish {
	if a.finish == finishLength {
		return &generateFinish{Type: finishLength, Length: len(a.output)}
	}
	return &generateFinish{Type: a.finish}
}
