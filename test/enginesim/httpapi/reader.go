package httpapi

import (
	"encoding/json"
	"net/http"

	"github.com/routerfleet/routerfleet/test/enginesim/tokenizer"
)

// Tokenizer turns prompts into tokens as the model that the double stands for.
type Tokenizer interface {
	// Text encodes a completion's text, with the tokens that belong around it or without.
	Text(text string, bare bool) ([]uint32, error)
	// Chat renders and encodes the chat of a request's body.
	Chat(body []byte) ([]uint32, error)
}

// reader reads prompts, by the toy tokenizer when there is no other.
type reader struct {
	own  Tokenizer
	bare bool
	// always says that what belongs around a completion cannot be left out: SGLang's way.
	always bool
}

func (t reader) text(text string) ([]uint32, error) {
	if t.own == nil {
		return tokenizer.Encode(text), nil
	}
	return t.own.Text(text, t.bare)
}

// chat judges the messages by the rules of the double either way.
func (t reader) chat(body []byte, messages json.RawMessage) ([]uint32, *apiError) {
	toy, refusal := parseMessages(messages)
	if refusal != nil || t.own == nil {
		return toy, refusal
	}
	tokens, err := t.own.Chat(body)
	if err != nil {
		return nil, badRequest("messages", "messages: %v", err)
	}
	return tokens, nil
}

// renderChat tells a chat's tokens, as vLLM does where it renders for others.
func (s *Server) renderChat(w http.ResponseWriter, r *http.Request) {
	body, refusal := readBody(w, r, maxBodyBytes)
	if refusal == nil {
		var j *job
		if j, refusal = s.reader.parseChat(body); refusal == nil {
			writeJSON(w, http.StatusOK, mustJSON(map[string]any{"request_id": "render", "token_ids": j.prompts[0]}))
			return
		}
	}
	refusal.write(w)
}
