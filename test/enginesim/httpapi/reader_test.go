package httpapi

import (
	"errors"
	"net/http"
	"testing"

	"github.com/routerfleet/routerfleet/test/enginesim"
)

// counting reads every text as 7 tokens and 1 more unless bare, every chat as 5.
type counting struct{}

func (counting) Text(text string, bare bool) ([]uint32, error) {
	if text == "refuse" {
		return nil, errors.New("not this one")
	}
	if bare {
		return make([]uint32, 7), nil
	}
	return make([]uint32, 8), nil
}

func (counting) Chat([]byte) ([]uint32, error) { return make([]uint32, 5), nil }

func TestAModelsOwnTokenizerReadsEveryPrompt(t *testing.T) {
	type counts struct {
		Tokens   []uint32
		TokenIDs []uint32 `json:"token_ids"`
		Usage    struct {
			PromptTokens int `json:"prompt_tokens"`
		}
		Meta struct {
			PromptTokens int `json:"prompt_tokens"`
		} `json:"meta_info"`
	}
	for _, c := range []struct {
		dialect    Dialect
		path, body string
		want       int
	}{
		{VLLM, "/v1/completions", `{"prompt":"x","max_tokens":1}`, 8},
		{VLLM, "/v1/completions", `{"prompt":"x","max_tokens":1,"add_special_tokens":false}`, 7},
		{SGLang, "/v1/completions", `{"prompt":"x","max_tokens":1,"add_special_tokens":false}`, 8},
		{SGLang, "/generate", `{"text":"x","sampling_params":{"max_new_tokens":1}}`, 8},
		{VLLM, "/v1/chat/completions", `{"messages":[{"role":"user","content":"x"}],"max_tokens":1}`, 5},
		{VLLM, "/v1/chat/completions/render", `{"messages":[{"role":"user","content":"x"}]}`, 5},
		{VLLM, "/tokenize", `{"messages":[{"role":"user","content":"x"}]}`, 5},
		{VLLM, "/tokenize", `{"prompt":"x"}`, 8},
		{SGLang, "/tokenize", `{"prompt":"x","add_special_tokens":false}`, 7},
	} {
		bubble(t, enginesim.Options{}, Options{Dialect: c.dialect, Tokenizer: counting{}}, func(f *fixture) {
			got := decode[counts](t, f.post(c.path, c.body))
			if n := len(got.Tokens) + len(got.TokenIDs) + got.Usage.PromptTokens + got.Meta.PromptTokens; n != c.want {
				t.Errorf("%s %s %s: %d tokens, want %d", c.dialect, c.path, c.body, n, c.want)
			}
		})
	}
	bubble(t, enginesim.Options{}, Options{Tokenizer: counting{}}, func(f *fixture) {
		if got := f.post("/v1/completions", `{"prompt":"refuse"}`); got.status != http.StatusBadRequest {
			t.Errorf("a prompt that cannot be tokenized: %d", got.status)
		}
	})
}

func TestAnEngineMayTellNoTokens(t *testing.T) {
	bubble(t, enginesim.Options{}, Options{Dialect: VLLM, NoTokenize: true}, func(f *fixture) {
		for _, path := range []string{"/tokenize", "/v1/chat/completions/render"} {
			if got := f.post(path, `{"prompt":"x"}`); got.status != http.StatusNotFound {
				t.Errorf("%s: %d", path, got.status)
			}
		}
	})
}
