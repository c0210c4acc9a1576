package chat

import (
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/routerfleet/routerfleet/router/tokens/jinja"
)

// Template is a model's chat template, or several for chats with and without tools.
type Template struct {
	plain, tools *form // tools is plain where the model has only one
	// constants are the special tokens, which templates know by name: bos_token, eos_token and so on.
	constants *jinja.Dict
}

// form is one template with what engines find out about it.
type form struct {
	template *jinja.Template
	// parts says, for each dialect, that the template goes through a message's content part by part.
	parts [2]bool
	// reasons says that it may show what the model thought in earlier turns.
	reasons bool
}

// wholeMessage finds a template that writes messages with whatever members they have.
var wholeMessage = regexp.MustCompile(`messages?\s*(\[[^\]]*\]\s*)?\|\s*(tojson|items|string)|messages?\.items\(`)

// mediaWords make SGLang take a template for one of parts.
var mediaWords = []string{"image", "audio", "video", "vision"}

func newForm(source string) (*form, error) {
	t, err := jinja.Parse(source)
	if err != nil {
		return nil, err
	}
	f := &form{template: t, reasons: strings.Contains(source, "reasoning") || wholeMessage.MatchString(source)}
	f.parts[VLLM] = t.LoopsOverContent(false)
	f.parts[SGLang] = t.LoopsOverContent(true)
	for _, word := range mediaWords {
		f.parts[SGLang] = f.parts[SGLang] || strings.Contains(source, word)
	}
	return f, nil
}

// New makes a template of its source and the model's special tokens by name, which may be nil.
func New(source string, constants *jinja.Dict) (*Template, error) {
	f, err := newForm(source)
	if err != nil {
		return nil, err
	}
	if constants == nil {
		constants = &jinja.Dict{}
	}
	return &Template{plain: f, tools: f, constants: constants}, nil
}

// Options of one rendering.
type Options struct {
	Dialect Dialect
	// Kwargs are those the engine was started with (--default-chat-template-kwargs); the request's come over them. nil:
	// none.
	Kwargs *jinja.Dict
	// Now is the engine's clock as far as we know it: templates may write the day. Default: ours, in UTC.
	Now func() time.Time
	// MaxBytes bounds the text; 0 is the most a template may make.
	MaxBytes int
}

// Text is a rendered chat.
type Text struct {
	Text []byte
	// Framed says that the tokenizer's special tokens go around it, beside those that the template wrote.
	Framed bool
}

// Render appends the text of an OpenAI chat request to dst. The body must be valid JSON.
func (t *Template) Render(dst, body []byte, o Options) (Text, error) {
	decoded, err := decode(body)
	if err != nil {
		return Text{dst, false}, err
	}
	r, err := read(decoded)
	if err != nil {
		return Text{dst, false}, err
	}
	f := t.plain
	if r.tools != nil {
		f = t.tools
	}
	var prefix string
	if r.proceed {
		if prefix, err = r.openEnd(o.Dialect); err != nil {
			return Text{dst, false}, err
		}
	}
	vars, err := r.variables(o.Dialect, f)
	if err != nil {
		return Text{dst, false}, err
	}
	if err := t.complete(vars, r, o); err != nil {
		return Text{dst, false}, err
	}
	if o.Now == nil {
		o.Now = func() time.Time { return time.Now().UTC() }
	}
	before := len(dst)
	dst, err = f.template.Render(dst, vars, jinja.Options{Now: o.Now, MaxBytes: o.MaxBytes})
	if err != nil || !r.proceed {
		return Text{dst, r.framed && o.Dialect == VLLM}, err
	}
	dst, err = proceed(dst, before, prefix, o.Dialect)
	return Text{dst, r.framed && o.Dialect == VLLM}, err
}

// complete adds the variables that are no messages.
func (t *Template) complete(vars *jinja.Dict, r *request, o Options) error {
	for _, more := range []*jinja.Dict{t.constants, o.Kwargs, r.kwargs} {
		if more == nil {
			continue
		}
		for i := range more.Len() {
			name, v := more.At(i)
			switch name {
			case "messages", "tools", "chat_template", "tokenize":
				return fmt.Errorf("%w: chat_template_kwargs.%s", ErrOptions, name)
			}
			vars.Set(name, v)
		}
	}
	if r.effort != nil {
		if _, given := vars.Get("reasoning_effort"); !given || o.Dialect == VLLM {
			vars.Set("reasoning_effort", r.effort)
		}
	}
	if o.Dialect == SGLang {
		r.generate = true
	}
	if _, given := vars.Get("add_generation_prompt"); !given || o.Dialect == VLLM {
		vars.Set("add_generation_prompt", r.generate)
	}
	return nil
}

// openEnd prepares a chat whose last message is to be continued. SGLang takes that message off and appends its text to the
// prompt; vLLM renders it and cuts what follows it.
func (r *request) openEnd(d Dialect) (string, error) {
	last := r.messages[len(r.messages)-1]
	content, ok := member(last, "content").(string)
	if !ok {
		return "", fmt.Errorf("%w: continue_final_message of parts", ErrOptions)
	}
	if d == SGLang {
		if member(last, "role") != "assistant" {
			r.proceed = false // it is ignored
			return "", nil
		}
		r.messages = r.messages[:len(r.messages)-1]
		if len(r.messages) == 0 {
			return "", fmt.Errorf("%w: continue_final_message of the only message", ErrOptions)
		}
		return content, nil
	}
	if r.generate || strings.TrimSpace(content) == "" {
		return "", fmt.Errorf("%w: continue_final_message with a generation prompt, or of nothing", ErrInvalid)
	}
	return content, nil
}

// proceed ends the text where the last message's ends. What is rendered begins at dst[from:].
func proceed(dst []byte, from int, content string, d Dialect) ([]byte, error) {
	if d == SGLang {
		return append(dst, content...), nil
	}
	text := string(dst[from:])
	at := strings.LastIndex(text, strings.TrimSpace(content))
	if at < 0 {
		return dst[:from], fmt.Errorf("%w: continue_final_message of a message that the template changes", ErrOptions)
	}
	end := at + len(strings.TrimSpace(content))
	if whole := strings.TrimLeft(content, " \t\r\n"); strings.HasPrefix(text[at:], whole) && whole == content {
		end = at + len(whole)
	}
	return dst[:from+end], nil
}
