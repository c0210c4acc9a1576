package httpapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/routerfleet/routerfleet/test/enginesim/tokenizer"
)

// job is a generation request, judged and ready to be planned.
type job struct {
	model        string // as the client wrote it; "" when absent
	prompts      [][]uint32
	choices      int // answers to each prompt
	maxTokens    int // of each answer
	natural      bool
	stops        []string
	stream       bool
	includeUsage bool
	cacheSalt    string
	format       renderer
}

// sampling is what chat and completions bodies share. Unknown members are
// ignored, as engines do.
type sampling struct {
	Model               string          `json:"model"`
	N                   *int            `json:"n"`
	MaxTokens           *int            `json:"max_tokens"`
	MaxCompletionTokens *int            `json:"max_completion_tokens"`
	Stop                json.RawMessage `json:"stop"`
	Stream              bool            `json:"stream"`
	StreamOptions       *struct {
		IncludeUsage bool `json:"include_usage"`
	} `json:"stream_options"`
	Temperature *float64 `json:"temperature"`
	TopP        *float64 `json:"top_p"`
	CacheSalt   string   `json:"cache_salt"`
}

// Answers without a given length: OpenAI's default for completions, and a chat
// that ends by itself.
const (
	defaultCompletionTokens = 16
	naturalChatTokens       = 64
)

// unmarshal decodes a body and says what is wrong with it as FastAPI would.
func unmarshal(body []byte, into any) *apiError {
	err := json.Unmarshal(body, into)
	var kind *json.UnmarshalTypeError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &kind):
		field := strings.TrimPrefix(kind.Field, "sampling.") // our embedding is not the client's business
		return badRequest(field, "%s: a JSON %s is not valid here", field, kind.Value)
	default:
		return badRequest("", "The body is not valid JSON: %v", err)
	}
}

// apply checks the shared members and moves them into the job.
func (s sampling) apply(j *job) *apiError {
	j.model, j.stream, j.cacheSalt = s.Model, s.Stream, s.CacheSalt
	if s.StreamOptions != nil {
		if !s.Stream {
			return badRequest("stream_options", "stream_options is only allowed when stream is true")
		}
		j.includeUsage = s.StreamOptions.IncludeUsage
	}
	if err := inRange("temperature", s.Temperature, 0, 2); err != nil {
		return err
	}
	if err := inRange("top_p", s.TopP, math.SmallestNonzeroFloat64, 1); err != nil {
		return err
	}
	if err := s.applyLength(j); err != nil {
		return err
	}
	j.choices = 1
	if s.N != nil {
		j.choices = *s.N
	}
	if j.choices < 1 || j.choices > maxChoices {
		return badRequest("n", "n must be 1 to %d, got %d", maxChoices, j.choices)
	}
	var err *apiError
	j.stops, err = parseStops(s.Stop)
	return err
}

func (s sampling) applyLength(j *job) *apiError {
	given, param := s.MaxTokens, "max_tokens"
	if s.MaxCompletionTokens != nil {
		given, param = s.MaxCompletionTokens, "max_completion_tokens"
	}
	if given == nil {
		return nil
	}
	if *given < 1 {
		return badRequest(param, "%s must be at least 1, got %d", param, *given)
	}
	j.maxTokens, j.natural = *given, false
	return nil
}

func inRange(name string, value *float64, low, high float64) *apiError {
	if value != nil && (*value < low || *value > high) {
		return badRequest(name, "%s must be in [%g, %g], got %g", name, math.Floor(low), high, *value)
	}
	return nil
}

// parseStops reads stop: null, a string or a list of strings.
func parseStops(raw json.RawMessage) ([]string, *apiError) {
	if isNull(raw) {
		return nil, nil
	}
	var stops []string
	var one string
	if json.Unmarshal(raw, &one) == nil {
		stops = []string{one}
	} else if json.Unmarshal(raw, &stops) != nil {
		return nil, badRequest("stop", "stop must be a string or a list of strings")
	}
	if len(stops) > maxStops {
		return nil, badRequest("stop", "at most %d stop strings are supported, got %d", maxStops, len(stops))
	}
	for _, stop := range stops {
		if stop == "" || len(stop) > maxStopBytes {
			return nil, badRequest("stop", "a stop string must have 1 to %d bytes, got %d", maxStopBytes, len(stop))
		}
	}
	return stops, nil
}

func isNull(raw json.RawMessage) bool {
	return len(raw) == 0 || bytes.Equal(bytes.TrimSpace(raw), []byte("null"))
}

// parsePrompts reads the four forms of a completions prompt, which SGLang's
// text and input_ids share: a string, strings, token ids, lists of token ids.
func (t reader) parsePrompts(param string, raw json.RawMessage) ([][]uint32, *apiError) {
	if isNull(raw) {
		return nil, badRequest(param, "%s is required", param)
	}
	var text string
	if json.Unmarshal(raw, &text) == nil {
		tokens, err := t.text(text)
		if err != nil {
			return nil, badRequest(param, "%s: %v", param, err)
		}
		return checkPrompts(param, [][]uint32{tokens})
	}
	if ids, err := parseIDs(raw); err == nil {
		return checkPrompts(param, [][]uint32{ids})
	}
	return t.parseBatch(param, raw)
}

// parseBatch reads a list of prompts item by item, so that a body full of empty
// lists costs no more than maxBatch of them.
func (t reader) parseBatch(param string, raw json.RawMessage) ([][]uint32, *apiError) {
	items := json.NewDecoder(bytes.NewReader(raw))
	if open, err := items.Token(); err != nil || open != json.Delim('[') {
		return nil, badRequest(param, "%s must be a string, a list of strings, a list of token ids or a list of lists of token ids", param)
	}
	var prompts [][]uint32
	for items.More() {
		if len(prompts) == maxBatch {
			return nil, badRequest(param, "%s: at most %d prompts are accepted", param, maxBatch)
		}
		var item json.RawMessage
		if err := items.Decode(&item); err != nil {
			return nil, badRequest(param, "%s[%d]: %v", param, len(prompts), err)
		}
		prompt, err := t.parseItem(item)
		if err != nil {
			return nil, badRequest(param, "%s[%d]: %v", param, len(prompts), err)
		}
		prompts = append(prompts, prompt)
	}
	return checkPrompts(param, prompts)
}

func (t reader) parseItem(item json.RawMessage) ([]uint32, error) {
	var text string
	if json.Unmarshal(item, &text) == nil {
		return t.text(text)
	}
	return parseIDs(item)
}

func checkPrompts(param string, prompts [][]uint32) ([][]uint32, *apiError) {
	if len(prompts) == 0 {
		return nil, badRequest(param, "%s is empty", param)
	}
	for i, prompt := range prompts {
		if len(prompt) == 0 {
			return nil, badRequest(param, "%s: prompt %d has no tokens", param, i)
		}
	}
	return prompts, nil
}

// parseIDs reads a JSON list of token ids. Prompts of 100,000 ids are normal, so
// it scans the digits itself; raw is known to be valid JSON.
func parseIDs(raw json.RawMessage) ([]uint32, error) {
	raw = bytes.TrimSpace(raw)
	if len(raw) < 2 || raw[0] != '[' {
		return nil, errors.New("not a list of token ids")
	}
	ids := make([]uint32, 0, bytes.Count(raw, []byte(","))+1)
	var id, digits uint32
	for _, c := range raw[1:] {
		switch {
		case c >= '0' && c <= '9':
			id = id*10 + uint32(c-'0')
			digits++
			if id >= tokenizer.VocabSize {
				return nil, fmt.Errorf("token id %d is outside the vocabulary of %d", id, tokenizer.VocabSize)
			}
		case c == ',' || c == ']':
			if digits > 0 {
				ids = append(ids, id)
			}
			id, digits = 0, 0
		case c != ' ' && c != '\n' && c != '\t' && c != '\r':
			return nil, fmt.Errorf("%q is no token id", c)
		}
	}
	return ids, nil
}
