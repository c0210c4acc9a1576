package chat

import (
	"fmt"
	"strings"

	"github.com/routerfleet/routerfleet/router/tokens/jinja"
)

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
