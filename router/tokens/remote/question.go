package remote

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/zeebo/xxh3"

	"github.com/routerfleet/routerfleet/router/tokens/chat"
)

// Engine is whom to ask.
type Engine struct {
	// ID tells engines apart: another process behind one address is another engine.
	ID  string
	URL string // base URL
	// APIKey gives the bearer token, which may change; nil or empty: none.
	APIKey  func() string
	Dialect chat.Dialect
}

// Prompt is what to tokenize: a text, or the chat of a request's body.
type Prompt struct {
	// Model is the name the engine serves it by.
	Model string
	// Text is of a completion. Bare leaves out the special tokens around it.
	Text string
	Bare bool
	// Chat is the body of a chat request; nil for a text.
	Chat []byte
}

// Errors that say something of the prompt or the engine. Others are of the network.
var (
	// ErrUnsupported says that the engine has no way to tokenize this prompt.
	ErrUnsupported = errors.New("remote: the engine does not tokenize such a prompt")
	// ErrTooLong says that the prompt is beyond what is asked for.
	ErrTooLong = errors.New("remote: the prompt is too long to ask for")
	// ErrBusy says that too many questions are under way, or that the engine failed lately.
	ErrBusy = errors.New("remote: the engine is not asked now")
)

// seed makes the keys of this process its own: with a known one, prompts with one key could be made on purpose.
var seed = rand.Uint64()

// key hashes all that makes the answer. Engines of one dialect and model share answers.
func (p Prompt) key(d chat.Dialect) key {
	h := xxh3.NewSeed(seed)
	kind := byte(0)
	if p.Bare {
		kind |= 1
	}
	if p.Chat != nil {
		kind |= 2
	}
	_, _ = h.Write([]byte{kind, byte(d)}) // xxh3 documents that Write never fails.
	_, _ = h.WriteString(p.Model)
	_, _ = h.Write([]byte{0})
	_, _ = h.WriteString(p.Text)
	_, _ = h.Write(p.Chat)
	return h.Sum128()
}

func (p Prompt) bytes() int { return len(p.Text) + len(p.Chat) }

// question is one route with a body.
type question struct {
	path string
	body []byte
}

// Routes of engines.
const (
	pathTokenize = "/tokenize"
	pathRender   = "/v1/chat/completions/render"
)

// questions are the ways to ask, the better first.
func (p Prompt) questions(d chat.Dialect) ([]question, error) {
	if p.Chat == nil {
		body, err := json.Marshal(map[string]any{"model": p.Model, "prompt": p.Text, "add_special_tokens": !p.Bare})
		return []question{{pathTokenize, body}}, err
	}
	if d == chat.SGLang {
		return nil, ErrUnsupported
	}
	all := []question{{pathRender, p.Chat}}
	if body := p.tokenizeChat(); body != nil {
		all = append(all, question{pathTokenize, body})
	}
	return all, nil
}

// tokenizeMembers are those of a chat request that /tokenize takes; promptMembers others that change the prompt, with which
// it would answer for another one.
var (
	tokenizeMembers = []string{"messages", "tools", "chat_template_kwargs", "add_generation_prompt", "continue_final_message", "add_special_tokens"}
	promptMembers   = []string{"chat_template", "documents", "reasoning_effort", "mm_processor_kwargs", "truncate_prompt_tokens"}
)

// tokenizeChat makes the body of a question to /tokenize, nil when it cannot be asked there.
func (p Prompt) tokenizeChat() []byte {
	var request map[string]json.RawMessage
	if json.Unmarshal(p.Chat, &request) != nil {
		return nil
	}
	for _, name := range promptMembers {
		if v, ok := request[name]; ok && string(v) != "null" {
			return nil
		}
	}
	asked := map[string]any{"model": p.Model}
	for _, name := range tokenizeMembers {
		if v, ok := request[name]; ok && string(v) != "null" {
			asked[name] = v
		}
	}
	body, err := json.Marshal(asked)
	if err != nil {
		return nil
	}
	return body
}

// readAnswer reads the tokens of either route.
func readAnswer(body []byte) ([]uint32, error) {
	var a struct {
		Tokens   []uint32 `json:"tokens"`
		Count    *int     `json:"count"`
		TokenIDs []uint32 `json:"token_ids"`
	}
	if err := json.Unmarshal(body, &a); err != nil {
		return nil, fmt.Errorf("read the engine's tokens: %w", err)
	}
	tokens := a.Tokens
	if tokens == nil {
		tokens = a.TokenIDs
	}
	switch {
	case tokens == nil:
		return nil, errors.New("read the engine's tokens: the answer has none")
	case a.Count != nil && *a.Count != len(tokens):
		return nil, fmt.Errorf("read the engine's tokens: %d of %d", len(tokens), *a.Count)
	case len(tokens) > maxTokens:
		return nil, ErrTooLong
	}
	return tokens, nil
}
