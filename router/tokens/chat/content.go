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

// OnlyText is ErrMedia when a chat request has parts that are no text. Engines tokenize such a chat, too, but the hashes of
// its blocks are of what the parts show, and tokens do not tell that.
func OnlyText(body []byte) error {
	decoded, err := decode(body)
	if err != nil {
		return err
	}
	request, _ := decoded.(*jinja.Dict)
	if request == nil {
		return fmt.Errorf("%w: the body is no object", ErrInvalid)
	}
	messages, _ := member(request, "messages").(*jinja.List)
	if messages == nil {
		return nil
	}
	for _, item := range messages.Items {
		m, _ := item.(*jinja.Dict)
		if m == nil {
			continue
		}
		parts, _ := member(m, "content").(*jinja.List)
		if parts == nil {
			continue
		}
		for _, part := range parts.Items {
			if err := onlyText(part); err != nil {
				return err
			}
		}
	}
	return nil
}

func onlyText(part any) error {
	if _, ok := part.(string); ok {
		return nil
	}
	p, _ := part.(*jinja.Dict)
	if p == nil {
		return fmt.Errorf("%w: a part is no object", ErrInvalid)
	}
	kind, _ := member(p, "type").(string)
	if _, known := textTypes[kind]; !known {
		return fmt.Errorf("%w: %.64q", ErrMedia, kind)
	}
	return nil
}
