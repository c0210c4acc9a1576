package chat

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func folder(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

const (
	plainChat = `{"messages":[{"role":"user","content":"x"}]}`
	toolChat  = `{"messages":[{"role":"user","content":"x"}],"tools":[{"type":"function","function":{"name":"f"}}]}`
)

func TestATemplateIsFoundWhereModelsKeepIt(t *testing.T) {
	for name, c := range map[string]struct {
		files       map[string]string
		own         string // --chat-template
		plain, tool string
	}{
		"in the configuration": {map[string]string{fileConfig: `{"chat_template":"{{ bos_token }}c","bos_token":"<s>"}`}, "", "<s>c", "<s>c"},
		"in a file of its own": {map[string]string{fileConfig: `{"chat_template":"c","bos_token":{"content":"<s>"}}`, fileTemplate: "{{ bos_token }}f"}, "", "<s>f", "<s>f"},
		"given by name":        {map[string]string{fileTemplate: "f", "own.jinja": "{{ eos_token }}o", fileSpecial: `{"eos_token":"</s>"}`}, "own.jinja", "</s>o", "</s>o"},
		"one for tools":        {map[string]string{fileConfig: `{"chat_template":[{"name":"default","template":"d"},{"name":"tool_use","template":"t"},{"name":"rag","template":"{% bad"}]}`}, "", "d", "t"},
	} {
		dir := folder(t, c.files)
		own := c.own
		if own != "" {
			own = filepath.Join(dir, own)
		}
		template, err := Load(dir, own)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		for body, want := range map[string]string{plainChat: c.plain, toolChat: c.tool} {
			if text, err := template.Render(nil, []byte(body), Options{}); err != nil || string(text.Text) != want {
				t.Errorf("%s: %q, %v, want %q", name, text.Text, err, want)
			}
		}
	}
}

func TestABadTemplateFileIsNamed(t *testing.T) {
	for name, c := range map[string]struct {
		files map[string]string
		own   string
		want  string
	}{
		"no JSON":      {map[string]string{fileConfig: `{`}, "", fileConfig},
		"no object":    {map[string]string{fileConfig: `[]`}, "", fileConfig},
		"no Jinja":     {map[string]string{fileTemplate: `{% include 'x' %}`}, "", fileTemplate},
		"missing":      {nil, "absent.jinja", "absent.jinja"},
		"no template":  {map[string]string{fileConfig: `{}`}, "", fileConfig},
		"no default":   {map[string]string{fileConfig: `{"chat_template":[{"name":"rag","template":"x"}]}`}, "", "default"},
		"a number":     {map[string]string{fileConfig: `{"chat_template":7}`}, "", fileConfig},
		"odd tokens":   {map[string]string{fileConfig: `{"bos_token":7}`}, "", "bos_token"},
		"too large":    {map[string]string{fileTemplate: strings.Repeat("x", 300<<10)}, "", fileTemplate},
		"a huge file":  {map[string]string{fileConfig: `"` + strings.Repeat("x", maxConfigBytes) + `"`}, "", fileConfig},
		"empty folder": {nil, "", fileConfig},
	} {
		dir := folder(t, c.files)
		own := c.own
		if own != "" {
			own = filepath.Join(dir, own)
		}
		if _, err := Load(dir, own); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := Load(folder(t, nil), ""); !errors.Is(err, ErrNone) {
		t.Errorf("an empty folder: %v", err)
	}
}
