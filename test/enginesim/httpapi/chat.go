package httpapi

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/routerfleet/routerfleet/test/enginesim/tokenizer"
)

// chatMessage is one message as clients write it.
type chatMessage struct {
	Role       string          `json:"role"`
	Content    json.RawMessage `json:"content"`
	ToolCalls  json.RawMessage `json:"tool_calls"`
	ToolCallID string          `json:"tool_call_id"`
}

// parseChat judges a body of /v1/chat/completions.
func (t reader) parseChat(body []byte) (*job, *apiError) {
	var request struct {
		sampling
		Messages json.RawMessage `json:"messages"`
	}
	if err := unmarshal(body, &request); err != nil {
		return nil, err
	}
	prompt, err := t.chat(body, request.Messages)
	if err != nil {
		return nil, err
	}
	j := &job{prompts: [][]uint32{prompt}, maxTokens: naturalChatTokens, natural: true, format: chatFormat{}}
	return j, request.apply(j)
}

// parseMessages renders and encodes the messages of a chat.
func parseMessages(raw json.RawMessage) ([]uint32, *apiError) {
	if isNull(raw) {
		return nil, badRequest("messages", "messages is required")
	}
	var messages []chatMessage
	if json.Unmarshal(raw, &messages) != nil {
		return nil, badRequest("messages", "messages must be a list of objects with role and content")
	}
	if len(messages) == 0 || len(messages) > maxMessages {
		return nil, badRequest("messages", "messages must have 1 to %d items, got %d", maxMessages, len(messages))
	}
	rendered := make([]tokenizer.Message, 0, len(messages))
	for i, m := range messages {
		text, err := m.text()
		if err != nil {
			return nil, badRequest("messages", "messages[%d]: %v", i, err)
		}
		rendered = append(rendered, tokenizer.Message{Role: m.Role, Content: text})
	}
	return tokenizer.Chat(rendered), nil
}

// text is the message's content as the template shows it. Parts that are no text
// stand as their JSON, so that different images make different prompts.
func (m chatMessage) text() (string, error) {
	switch m.Role {
	case "system", "developer", "user", "assistant", "tool", "function":
	case "":
		return "", fmt.Errorf("role is required")
	default:
		return "", fmt.Errorf("role %q is unknown", m.Role)
	}
	if isNull(m.Content) {
		if isNull(m.ToolCalls) {
			return "", fmt.Errorf("content is required")
		}
		return string(m.ToolCalls), nil
	}
	var text string
	if json.Unmarshal(m.Content, &text) == nil {
		return text + string(m.ToolCalls), nil
	}
	var parts []json.RawMessage
	if json.Unmarshal(m.Content, &parts) != nil {
		return "", fmt.Errorf("content must be a string or a list of parts")
	}
	var all strings.Builder
	for _, part := range parts {
		all.WriteString(partText(part))
	}
	return all.String(), nil
}

func partText(raw json.RawMessage) string {
	var part struct {
		Type string  `json:"type"`
		Text *string `json:"text"`
	}
	if json.Unmarshal(raw, &part) == nil && part.Type == "text" && part.Text != nil {
		return *part.Text
	}
	return string(raw)
}

// chatFormat renders chat.completion and its chunks.
type chatFormat struct{}

type chatDelta struct {
	Role    string  `json:"role,omitempty"`
	Content *string `json:"content,omitempty"`
}

type chatChoice struct {
	Index        int        `json:"index"`
	Delta        *chatDelta `json:"delta,omitempty"`
	Message      *chatDelta `json:"message,omitempty"`
	Logprobs     *struct{}  `json:"logprobs"`
	FinishReason *string    `json:"finish_reason"`
}

type chatBody struct {
	head
	Choices []chatChoice `json:"choices"`
	Usage   *usage       `json:"usage,omitempty"`
}

func (chatFormat) chunk(h head, choices []chatChoice, u *usage) any {
	h.Object = "chat.completion.chunk"
	return chatBody{head: h, Choices: choices, Usage: u}
}

func (f chatFormat) open(h head, index int) any {
	empty := ""
	return f.chunk(h, []chatChoice{{Index: index, Delta: &chatDelta{Role: "assistant", Content: &empty}}}, nil)
}

func (f chatFormat) delta(h head, a *answer, from, to int) any {
	text := a.text[from:to]
	return f.chunk(h, []chatChoice{{Index: a.index, Delta: &chatDelta{Content: &text}}}, nil)
}

func (f chatFormat) close(h head, a *answer) any {
	return f.chunk(h, []chatChoice{{Index: a.index, Delta: &chatDelta{}, FinishReason: &a.finish}}, nil)
}

func (f chatFormat) usage(h head, u usage) any { return f.chunk(h, []chatChoice{}, &u) }

func (chatFormat) whole(h head, answers []*answer, u usage) any {
	h.Object = "chat.completion"
	body := chatBody{head: h, Usage: &u}
	for _, a := range answers {
		body.Choices = append(body.Choices, chatChoice{
			Index: a.index, Message: &chatDelta{Role: "assistant", Content: &a.text}, FinishReason: &a.finish,
		})
	}
	return body
}

func (chatFormat) idPrefix() string { return "chatcmpl-" }
