package chat

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/routerfleet/routerfleet/router/tokens/jinja"
)

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

// pythonWords are what Python's json reads and we do not: numbers that are none, and halves of characters.
var pythonWords = []string{"NaN", "Infinity", `\ud`, `\uD`}

// arguments decodes a function's arguments. vLLM takes what is no JSON for {}, SGLang refuses it.
func arguments(f *jinja.Dict, d Dialect) (*jinja.Dict, error) {
	f = f.Copy()
	switch v := member(f, "arguments").(type) {
	case string:
		decoded, err := decode([]byte(v))
		if err != nil {
			if errors.Is(err, ErrTooLong) {
				return nil, err
			}
			if d == SGLang || slices.ContainsFunc(pythonWords, func(w string) bool { return strings.Contains(v, w) }) {
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
