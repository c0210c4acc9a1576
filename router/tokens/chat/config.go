package chat

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/routerfleet/routerfleet/router/tokens/jinja"
)

// ErrNone says that a model's files have no chat template.
var ErrNone = errors.New("chat: there is no chat template")

// Files of a model, as Hugging Face's transformers name them.
const (
	fileConfig   = "tokenizer_config.json"
	fileSpecial  = "special_tokens_map.json"
	fileTemplate = "chat_template.jinja"
)

// Load reads the chat template of the model whose files are in dir: chat_template.jinja, or else the one in
// tokenizer_config.json. file names another template; empty: none. ErrNone when there is none.
func Load(dir, file string) (*Template, error) {
	config, err := readObject(filepath.Join(dir, fileConfig))
	if err != nil {
		return nil, err
	}
	special, err := readObject(filepath.Join(dir, fileSpecial))
	if err != nil {
		return nil, err
	}
	t := &Template{constants: &jinja.Dict{}}
	for _, from := range []*jinja.Dict{config, special} {
		if err := specialTokens(t.constants, from); err != nil {
			return nil, err
		}
	}
	required := file != ""
	if !required {
		file = filepath.Join(dir, fileTemplate)
	}
	source, err := readFile(file)
	switch {
	case err == nil:
		return t, t.use(file, string(source), "")
	case required || !errors.Is(err, fs.ErrNotExist):
		return nil, err
	}
	return t, t.fromConfig(filepath.Join(dir, fileConfig), member(config, "chat_template"))
}

// use parses the template and the one for chats with tools, which may be missing.
func (t *Template) use(file, plain, tools string) (err error) {
	if t.plain, err = newForm(plain); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	if t.tools = t.plain; tools != "" {
		if t.tools, err = newForm(tools); err != nil {
			return fmt.Errorf("%s: the template tool_use: %w", file, err)
		}
	}
	return nil
}

// fromConfig takes one template, or those named default and tool_use of a list.
func (t *Template) fromConfig(file string, v any) error {
	switch v := v.(type) {
	case nil:
		return fmt.Errorf("%s: %w", file, ErrNone)
	case string:
		return t.use(file, v, "")
	case *jinja.List:
		if len(v.Items) > maxTemplates {
			return fmt.Errorf("%s: %d chat templates, at most %d are read", file, len(v.Items), maxTemplates)
		}
		named := map[any]string{}
		for _, item := range v.Items {
			if d, ok := item.(*jinja.Dict); ok {
				source, _ := member(d, "template").(string)
				if name, ok := member(d, "name").(string); ok {
					named[name] = source
				}
			}
		}
		if named["default"] == "" {
			return fmt.Errorf("%s: no chat template of several is named default: %w", file, ErrNone)
		}
		return t.use(file, named["default"], named["tool_use"])
	}
	return fmt.Errorf("%s: chat_template is neither text nor a list", file)
}

// specialNames are the variables of a template that name special tokens.
var specialNames = []string{"bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"}

// specialTokens reads them: each is text, or an object with content.
func specialTokens(into, from *jinja.Dict) error {
	for _, name := range specialNames {
		switch v := member(from, name).(type) {
		case nil:
		case string:
			into.Set(name, v)
		case *jinja.Dict:
			content, ok := member(v, "content").(string)
			if !ok {
				return fmt.Errorf("%s has no content", name)
			}
			into.Set(name, content)
		default:
			return fmt.Errorf("%s is neither text nor an object", name)
		}
	}
	return nil
}

// readObject reads a file that may be missing.
func readObject(path string) (*jinja.Dict, error) {
	data, err := readFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return &jinja.Dict{}, nil
	}
	if err != nil {
		return nil, err
	}
	v, err := decode(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	d, ok := v.(*jinja.Dict)
	if !ok {
		return nil, fmt.Errorf("%s holds no object", path)
	}
	return d, nil
}

// readFile reads at most maxConfigBytes.
func readFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxConfigBytes+1))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	if len(data) > maxConfigBytes {
		return nil, fmt.Errorf("%s has more than %d bytes", path, maxConfigBytes)
	}
	return data, nil
}

// ParseKwargs reads kwargs for templates, a JSON object; empty text gives none.
func ParseKwargs(text string) (*jinja.Dict, error) {
	if text == "" {
		return nil, nil
	}
	v, err := decode([]byte(text))
	if err != nil {
		return nil, err
	}
	d, ok := v.(*jinja.Dict)
	if !ok {
		return nil, fmt.Errorf("%w: kwargs are no object", ErrInvalid)
	}
	return d, nil
}
