package chat

import (
	"fmt"
	"strings"

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
func (r *request) variables(d Dialect, parts bool) (*jinja.Dict, error) {
	list := &jinja.List{}
	for _, m := range r.messages {
		made, err := message(m, d, parts)
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
func message(m *jinja.Dict, d Dialect, parts bool) (*jinja.Dict, error) {
	role, ok := member(m, "role").(string)
	if !ok {
		return nil, fmt.Errorf("%w: a message without a role", ErrInvalid)
	}
	content, err := contentOf(m, role, d, parts)
	if err != nil {
		return nil, err
	}
	made := jinja.NewDict("role", role, "content", content)
	if d == SGLang {
		return made, sglangMembers(made, m, role)
	}
	return made, vllmMembers(made, m, role)
}

// vllmMembers keeps what vLLM keeps of a message beside its content.
func vllmMembers(made, m *jinja.Dict, role string) error {
	if role == "assistant" {
		if reasoning(m) {
			// Whether it is handed on depends on the engine's version.
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

// toolCalls turns arguments, which clients send as a string, into the values they are.
func toolCalls(calls *jinja.List, d Dialect) (*jinja.List, error) {
	list := &jinja.List{}
	for _, item := range calls.Items {
		c, ok := item.(*jinja.Dict)
		if !ok {
			return nil, fmt.Errorf("%w: a tool call is no object", ErrInvalid)
		}
		f, ok := member(c, "function").(*jinja.Dict)
		if !ok {
			return nil, fmt.Errorf("%w: a tool call without a function", ErrInvalid)
		}
		f, err := arguments(f, d)
		if err != nil {
			return nil, err
		}
		if d == SGLang {
			list.Items = append(list.Items, jinja.NewDict("id", member(c, "id"), "index", member(c, "index"), "type", "function",
				"function", jinja.NewDict("name", member(f, "name"), "arguments", member(f, "arguments"))))
			continue
		}
		c = c.Copy()
		c.Set("function", f)
		list.Items = append(list.Items, c)
	}
	return list, nil
}

// arguments decodes a function's arguments. vLLM takes what is no JSON for {}, SGLang refuses it.
func arguments(f *jinja.Dict, d Dialect) (*jinja.Dict, error) {
	f = f.Copy()
	switch v := member(f, "arguments").(type) {
	case string:
		decoded, err := decode([]byte(v))
		if err != nil {
			if d == SGLang {
				return nil, fmt.Errorf("%w: arguments of a tool call that are no JSON", ErrOptions)
			}
			decoded = &jinja.Dict{}
		}
		f.Set("arguments", decoded)
	case *jinja.Dict, *jinja.List:
	default:
		f.Set("arguments", &jinja.Dict{})
	}
	return f, nil
}

// toolList makes the tools that a template sees: with the members that the engine's model of a tool has, in their order.
func (r *request) toolList(d Dialect) (any, error) {
	given, ok := r.tools.(*jinja.List)
	if !ok || len(given.Items) == 0 && d == SGLang {
		return nil, nil
	}
	only, err := r.chosenTool(d)
	if err != nil || d == SGLang && r.choice == "none" {
		return nil, err
	}
	list := &jinja.List{}
	for _, item := range given.Items {
		t, ok := item.(*jinja.Dict)
		if !ok {
			return nil, fmt.Errorf("%w: a tool is no object", ErrInvalid)
		}
		f, ok := member(t, "function").(*jinja.Dict)
		if !ok {
			return nil, fmt.Errorf("%w: a tool that is no function", ErrOptions)
		}
		if only != "" && member(f, "name") != only {
			continue
		}
		made, err := tool(t, f, d)
		if err != nil {
			return nil, err
		}
		list.Items = append(list.Items, made)
	}
	return list, nil
}

// chosenTool names the one tool that SGLang keeps.
func (r *request) chosenTool(d Dialect) (string, error) {
	choice, ok := r.choice.(*jinja.Dict)
	if !ok || d != SGLang {
		return "", nil
	}
	f, _ := member(choice, "function").(*jinja.Dict)
	if f == nil {
		return "", fmt.Errorf("%w: tool_choice names no function", ErrInvalid)
	}
	name, _ := member(f, "name").(string)
	return name, nil
}

func tool(t, f *jinja.Dict, d Dialect) (*jinja.Dict, error) {
	for i := range t.Len() {
		if name, _ := t.At(i); name != "type" && name != "function" {
			return nil, fmt.Errorf("%w: %s of a tool", ErrOptions, name)
		}
	}
	made := &jinja.Dict{}
	if d == SGLang {
		strict := member(f, "strict")
		if strict == nil {
			strict = false
		}
		made = jinja.NewDict("description", member(f, "description"), "name", member(f, "name"), "parameters", member(f, "parameters"), "strict", strict)
	} else {
		for _, name := range []string{"name", "description", "parameters"} {
			made.Set(name, member(f, name))
		}
		for i := range f.Len() {
			if name, v := f.At(i); name != "name" && name != "description" && name != "parameters" {
				made.Set(name, v)
			}
		}
	}
	return jinja.NewDict("type", "function", "function", made), nil
}

// textTypes are the parts whose text vLLM takes; SGLang takes the first.
var textTypes = map[string]string{"text": "text", "input_text": "text", "output_text": "text", "refusal": "refusal", "thinking": "thinking"}

// contentOf is what a template finds as a message's content: parts when it goes through them, text when it does not.
func contentOf(m *jinja.Dict, role string, d Dialect, parts bool) (any, error) {
	content := member(m, "content")
	list, ok := content.(*jinja.List)
	if !ok {
		s, ok := content.(string)
		switch {
		case content != nil && !ok:
			return nil, fmt.Errorf("%w: content is neither text nor parts", ErrInvalid)
		case d == SGLang || !parts || role == "tool":
			return s, nil
		case content == nil:
			return &jinja.List{}, nil
		}
		return jinja.NewList(textPart(s)), nil
	}
	texts, err := textsOf(list, d)
	if err != nil {
		return nil, err
	}
	if d == SGLang && role == "tool" && parts {
		return nil, fmt.Errorf("%w: a tool's answer in parts", ErrOptions)
	}
	if parts && role != "tool" {
		made := &jinja.List{}
		for i, s := range texts {
			if d == SGLang { // as they came
				made.Items = append(made.Items, list.Items[i])
				continue
			}
			made.Items = append(made.Items, textPart(s))
		}
		return made, nil
	}
	if d == SGLang {
		return strings.Join(texts, " "), nil
	}
	return strings.Join(texts, "\n"), nil
}

func textPart(s string) *jinja.Dict { return jinja.NewDict("type", "text", "text", s) }

// textsOf are the texts of parts, one for each.
func textsOf(list *jinja.List, d Dialect) ([]string, error) {
	texts := make([]string, 0, len(list.Items))
	for _, item := range list.Items {
		if s, ok := item.(string); ok && d == VLLM {
			texts = append(texts, s)
			continue
		}
		p, ok := item.(*jinja.Dict)
		if !ok {
			return nil, fmt.Errorf("%w: a part is no object", ErrInvalid)
		}
		kind, _ := member(p, "type").(string)
		name, known := textTypes[kind]
		switch {
		case !known:
			return nil, fmt.Errorf("%w: %.64q", ErrMedia, kind)
		case d == SGLang && kind != "text":
			return nil, fmt.Errorf("%w: a part of type %s", ErrOptions, kind)
		}
		s, ok := member(p, name).(string)
		if !ok {
			return nil, fmt.Errorf("%w: a part without its text", ErrInvalid)
		}
		texts = append(texts, s)
	}
	return texts, nil
}
