package proxy

import (
	"bytes"
	"encoding/json"
)

// Usage is what an engine says a request cost, in tokens. Known is false when the answer did not say, CachedKnown when it
// did not say how much was cached: silence is not zero.
type Usage struct {
	Known, CachedKnown         bool
	Prompt, Completion, Cached int
}

// maxUsageTokens bounds what is believed of one answer, far beyond any context: sums of what engines say must not overflow.
const maxUsageTokens = 1 << 30

// openAIUsage is the usage object of the OpenAI answers of vLLM and SGLang.
type openAIUsage struct {
	PromptTokens     int `json:"prompt_tokens"`
	CompletionTokens int `json:"completion_tokens"`
	Details          *struct {
		CachedTokens *int `json:"cached_tokens"`
	} `json:"prompt_tokens_details"`
}

// metaInfo is the usage part of SGLang's /generate answers.
type metaInfo struct {
	PromptTokens     int  `json:"prompt_tokens"`
	CompletionTokens int  `json:"completion_tokens"`
	CachedTokens     *int `json:"cached_tokens"`
}

var (
	doneMarker = []byte("[DONE]")
	usageKey   = []byte(`"usage"`)
	metaKey    = []byte(`"meta_info"`)
	errorKey   = []byte(`"error"`)
	idsKey     = []byte(`"prompt_token_ids"`)
	nullValue  = []byte("null")
)

// answerReader collects from the events of a stream, or from one JSON document, what the router wants to know.
type answerReader struct {
	// events counts data events other than the end marker: about one a token.
	events int
	done   bool // the end marker was seen
	// failed is set by an error event inside the stream; serverFault when its code says 5xx.
	failed, serverFault bool
	// last holds the latest raw usage object; engines may send one in every event, only the last is decoded.
	last   []byte
	isMeta bool
	// told are the tokens that the engine says the prompt had, where somebody wants to know and the client asked for them.
	wantIDs bool
	told    *tokenIDs
}

// event reads the data of one event.
func (a *answerReader) event(data []byte) {
	if bytes.Equal(data, doneMarker) {
		a.done = true
		return
	}
	a.events++
	// A quoted key cannot occur inside a JSON string, where its quotes would be escaped: the search only lets through
	// events worth parsing.
	if bytes.Contains(data, usageKey) || bytes.Contains(data, metaKey) || bytes.Contains(data, errorKey) ||
		a.wantIDs && a.told == nil && bytes.Contains(data, idsKey) {
		a.document(data)
	}
}

// document reads the top-level members of one JSON answer. What is not JSON tells nothing and is no error here.
func (a *answerReader) document(data []byte) {
	// A syntax error ends the walk; the members before it have been seen, and the client gets the bytes as they are.
	_, _ = members(data, func(key, value []byte) {
		if bytes.Equal(value, nullValue) {
			return
		}
		switch string(key) {
		case "usage":
			a.last, a.isMeta = append(a.last[:0], value...), false
		case "meta_info":
			a.last, a.isMeta = append(a.last[:0], value...), true
		case "prompt_token_ids":
			a.tell(value)
		case "error":
			a.failed = true
			a.serverFault = a.serverFault || isServerFault(value)
		}
	})
}

// tell reads the prompt's tokens once.
func (a *answerReader) tell(value []byte) {
	if !a.wantIDs || a.told != nil || value[0] != '[' {
		return
	}
	a.told = idPool.Get().(*tokenIDs)
	if _, ok := tokenPrompt(value, a.told); !ok {
		a.told.bad = true
	}
}

// isServerFault says whether an error object carries a numeric code of the 5xx class.
func isServerFault(object []byte) bool {
	var body struct {
		Code json.Number `json:"code"`
	}
	if json.Unmarshal(object, &body) != nil {
		return false
	}
	code, err := body.Code.Int64()
	return err == nil && code >= 500
}

// usage decodes the last usage object seen. Counts that cannot be are taken for unknown.
func (a *answerReader) usage() Usage {
	if len(a.last) == 0 {
		return Usage{}
	}
	var u Usage
	var cached *int
	if a.isMeta {
		var m metaInfo
		if json.Unmarshal(a.last, &m) != nil {
			return Usage{}
		}
		u, cached = Usage{Known: true, Prompt: m.PromptTokens, Completion: m.CompletionTokens}, m.CachedTokens
	} else {
		var o openAIUsage
		if json.Unmarshal(a.last, &o) != nil {
			return Usage{}
		}
		u = Usage{Known: true, Prompt: o.PromptTokens, Completion: o.CompletionTokens}
		if o.Details != nil {
			cached = o.Details.CachedTokens
		}
	}
	if cached != nil {
		u.CachedKnown, u.Cached = true, *cached
	}
	for _, n := range []int{u.Prompt, u.Completion, u.Cached} {
		if n < 0 || n > maxUsageTokens {
			return Usage{}
		}
	}
	return u
}
