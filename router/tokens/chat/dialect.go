package chat

import (
	"fmt"

	"github.com/routerfleet/routerfleet/router/tokens/jinja"
)

// Dialect is whose reading of a request is followed.
type Dialect uint8

// The dialects. VLLM is that of vLLM's OpenAI server, SGLang that of SGLang's.
const (
	VLLM Dialect = iota
	SGLang
)

// String names the engine.
func (d Dialect) String() string {
	if d == SGLang {
		return "sglang"
	}
	return "vllm"
}

// request are the members of a chat request that make its prompt.
type request struct {
	messages  []*jinja.Dict
	tools     any // *jinja.List or nil
	choice    any
	kwargs    *jinja.Dict // nil without
	documents any
	effort    any
	generate  bool // add_generation_prompt
	proceed   bool // continue_final_message
	framed    bool // add_special_tokens
}

// unfollowed are members that make another prompt of the same messages.
var unfollowed = []string{"chat_template", "input_ids"}

// read takes a decoded body apart.
func read(body any) (*request, error) {
	d, ok := body.(*jinja.Dict)
	if !ok {
		return nil, fmt.Errorf("%w: the body is no object", ErrInvalid)
	}
	for _, name := range unfollowed {
		if v, ok := d.Get(name); ok && v != nil && v != false {
			return nil, fmt.Errorf("%w: %s", ErrOptions, name)
		}
	}
	r := &request{generate: true}
	list, _ := member(d, "messages").(*jinja.List)
	if list == nil || len(list.Items) == 0 || len(list.Items) > maxMessages {
		return nil, fmt.Errorf("%w: messages is no list of 1 to %d", ErrInvalid, maxMessages)
	}
	for _, item := range list.Items {
		m, ok := item.(*jinja.Dict)
		if !ok {
			return nil, fmt.Errorf("%w: a message is no object", ErrInvalid)
		}
		r.messages = append(r.messages, m)
	}
	for name, into := range map[string]*bool{
		"add_generation_prompt": &r.generate, "continue_final_message": &r.proceed, "add_special_tokens": &r.framed,
	} {
		if v, ok := d.Get(name); ok && v != nil {
			if *into, ok = v.(bool); !ok {
				return nil, fmt.Errorf("%w: %s is no bool", ErrInvalid, name)
			}
		}
	}
	if v := member(d, "chat_template_kwargs"); v != nil {
		if r.kwargs, ok = v.(*jinja.Dict); !ok {
			return nil, fmt.Errorf("%w: chat_template_kwargs is no object", ErrInvalid)
		}
	}
	r.choice, r.documents, r.effort = member(d, "tool_choice"), member(d, "documents"), member(d, "reasoning_effort")
	if v := member(d, "tools"); v != nil {
		if _, ok := v.(*jinja.List); !ok {
			return nil, fmt.Errorf("%w: tools is no list", ErrInvalid)
		}
		r.tools = v
	}
	return r, nil
}

func member(d *jinja.Dict, name string) any {
	v, _ := d.Get(name)
	return v
}

// variables are what the engine hands to the template.
func (r *request) variables(d Dialect, f *form) (*jinja.Dict, error) {
	list := &jinja.List{}
	for _, m := range r.messages {
		made, err := message(m, d, f)
		if err != nil {
			return nil, err
		}
		list.Items = append(list.Items, made)
	}
	tools, err := r.toolList(d)
	if err != nil {
		return nil, err
	}
	return jinja.NewDict("messages", list, "tools", tools, "documents", r.documents), nil
}

// message makes the message that a template sees.
func message(m *jinja.Dict, d Dialect, f *form) (*jinja.Dict, error) {
	role, ok := member(m, "role").(string)
	if !ok {
		return nil, fmt.Errorf("%w: a message without a role", ErrInvalid)
	}
	content, err := contentOf(m, role, d, f.parts[d])
	if err != nil {
		return nil, err
	}
	made := jinja.NewDict("role", role, "content", content)
	if d == SGLang {
		return made, sglangMembers(made, m, role)
	}
	return made, vllmMembers(made, m, role, f)
}

// vllmMembers keeps what vLLM keeps of a message beside its content.
func vllmMembers(made, m *jinja.Dict, role string, f *form) error {
	if role == "assistant" {
		if f.reasons && reasoning(m) {
			// Whether it is handed on depends on the engine's version, and this template would show it.
			return fmt.Errorf("%w: reasoning in a message", ErrOptions)
		}
		calls, ok := member(m, "tool_calls").(*jinja.List)
		if ok && len(calls.Items) > 0 {
			list, err := toolCalls(calls, VLLM)
			if err != nil {
				return err
			}
			made.Set("tool_calls", list)
		}
	}
	if role == "tool" {
		if id, ok := m.Get("tool_call_id"); ok {
			made.Set("tool_call_id", id)
		}
	}
	if name, ok := member(m, "name").(string); ok {
		made.Set("name", name)
	}
	if role == "developer" {
		made.Set("tools", member(m, "tools"))
	}
	return nil
}

func reasoning(m *jinja.Dict) bool {
	for _, name := range []string{"reasoning", "reasoning_content"} {
		if v := member(m, name); v != nil && v != "" {
			return true
		}
	}
	return false
}

// sglangMembers keeps what SGLang's model of a message has, without what is None.
func sglangMembers(made, m *jinja.Dict, role string) error {
	if role == "user" {
		return nil
	}
	for _, name := range []string{"tool_call_id", "name", "reasoning_content"} {
		if v := member(m, name); v != nil {
			made.Set(name, v)
		}
	}
	if calls, ok := member(m, "tool_calls").(*jinja.List); ok {
		list, err := toolCalls(calls, SGLang)
		if err != nil {
			return err
		}
		made.Set("tool_calls", list)
	}
	return nil
}
