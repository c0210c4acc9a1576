package model

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/routerfleet/routerfleet/router/tokens/chat"
	"github.com/routerfleet/routerfleet/test/data/toymodel"
)

var day = time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)

func toy(t testing.TB, v toymodel.Variant) string {
	t.Helper()
	dir := t.TempDir()
	if err := toymodel.Write(dir, v); err != nil {
		t.Fatal(err)
	}
	return dir
}

func load(t testing.TB, f Files) *Model {
	t.Helper()
	m, err := Load(f)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestAChatIsItsTextWithoutFurtherTokensAroundIt(t *testing.T) {
	m := load(t, Files{Path: toy(t, toymodel.Plain)})
	if !m.Chats() {
		t.Fatal("there is a template")
	}
	body := []byte(`{"messages":[{"role":"system","content":"you are the weather"},{"role":"user","content":"hello <|im_end|>"}]}`)
	const want = toymodel.BOS + "<|im_start|>system\nyou are the weather<|im_end|>\n<|im_start|>user\nhello <|im_end|><|im_end|>\n<|im_start|>assistant\n"
	for range 2 {
		ids, err := m.Chat([]uint32{7}, body, chat.VLLM, day)
		if err != nil || ids[0] != 7 {
			t.Fatal(ids, err)
		}
		if text, err := m.Decode(nil, ids[1:]); err != nil || string(text) != want {
			t.Errorf("%q, %v, want %q", text, err, want)
		}
		direct, err := m.Text(nil, want, true)
		if err != nil || !slices.Equal(ids[1:], direct) {
			t.Errorf("%v, want %v, %v", ids[1:], direct, err)
		}
	}
	text, bare, err := m.Render(body, chat.VLLM, day)
	if err != nil || text != want || !bare {
		t.Errorf("%q, %v, %v", text, bare, err)
	}
}

// A begin-of-text is put before a completion, and not twice before a chat.
func TestACompletionGetsTheTokensAroundItThatEnginesPut(t *testing.T) {
	m := load(t, Files{Path: filepath.Join(toy(t, toymodel.Plain), "tokenizer.json")})
	bare, err := m.Text(nil, "hello", true)
	if err != nil {
		t.Fatal(err)
	}
	framed, err := m.Text(nil, "hello", false)
	if err != nil {
		t.Fatal(err)
	}
	begin, err := m.Text(nil, toymodel.BOS, true)
	if err != nil || len(begin) != 1 || !slices.Equal(framed, append(begin, bare...)) {
		t.Errorf("%v framed, %v bare, %v begins, %v", framed, bare, begin, err)
	}
	ids, err := m.Chat(nil, []byte(`{"messages":[{"role":"user","content":"hello"}]}`), chat.SGLang, day)
	if err != nil || ids[0] != begin[0] || slices.Contains(ids[1:], begin[0]) {
		t.Errorf("%v, %v", ids, err)
	}
}

func TestKwargsOfTheEngineReachTheTemplate(t *testing.T) {
	dir := toy(t, toymodel.Plain)
	own := filepath.Join(dir, "own.jinja")
	if err := os.WriteFile(own, []byte(`{{ mode }}{{ strftime_now('%d %b %Y') }}`), 0o600); err != nil {
		t.Fatal(err)
	}
	m := load(t, Files{Path: dir, ChatTemplate: own, Kwargs: `{"mode":"calm "}`})
	text, _, err := m.Render([]byte(`{"messages":[{"role":"user","content":"x"}]}`), chat.VLLM, day)
	if err != nil || text != "calm 04 Mar 2026" {
		t.Errorf("%q, %v", text, err)
	}
}

func TestAModelWithoutATemplateTakesTextsOnly(t *testing.T) {
	dir := toy(t, toymodel.Plain)
	if err := os.Remove(filepath.Join(dir, "tokenizer_config.json")); err != nil {
		t.Fatal(err)
	}
	m := load(t, Files{Path: dir})
	if _, err := m.Chat(nil, []byte(`{}`), chat.VLLM, day); m.Chats() || !errors.Is(err, ErrNoTemplate) {
		t.Error(err)
	}
	if ids, err := m.Text(nil, "hello", true); err != nil || len(ids) == 0 {
		t.Errorf("%v, %v", ids, err)
	}
}

func TestFilesThatCannotBeUsedAreNamed(t *testing.T) {
	bad := toy(t, toymodel.Plain)
	if err := os.WriteFile(filepath.Join(bad, "chat_template.jinja"), []byte("{% include 'x' %}"), 0o600); err != nil {
		t.Fatal(err)
	}
	good := toy(t, toymodel.Plain)
	for name, c := range map[string]struct {
		files Files
		want  string
	}{
		"no such directory": {Files{Path: "/no/such/place"}, "/no/such/place"},
		"no tokenizer":      {Files{Path: t.TempDir()}, "tokenizer.json"},
		"a bad template":    {Files{Path: bad}, "chat_template.jinja"},
		"no such template":  {Files{Path: good, ChatTemplate: "/no/such/file.jinja"}, "file.jinja"},
		"bad kwargs":        {Files{Path: good, Kwargs: "{"}, "kwargs"},
	} {
		if _, err := Load(c.files); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestVariantsOfTheToyDiffer(t *testing.T) {
	body := []byte(`{"messages":[{"role":"user","content":"what is the answer to the question"}]}`)
	var seen [][]uint32
	for _, v := range []toymodel.Variant{toymodel.Plain, toymodel.OtherVocabulary, toymodel.OtherTemplate} {
		ids, err := load(t, Files{Path: toy(t, v)}).Chat(nil, body, chat.VLLM, day)
		if err != nil {
			t.Fatal(err)
		}
		for _, other := range seen {
			if slices.Equal(ids, other) {
				t.Errorf("variant %d makes the tokens of another", v)
			}
		}
		seen = append(seen, ids)
	}
}

func TestManyMayEncodeAtOnce(t *testing.T) {
	m := load(t, Files{Path: toy(t, toymodel.Plain)})
	body := []byte(`{"messages":[{"role":"user","content":"hello you and the weather"}]}`)
	want, err := m.Chat(nil, body, chat.VLLM, day)
	if err != nil {
		t.Fatal(err)
	}
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			for range 50 {
				if ids, err := m.Chat(nil, body, chat.VLLM, day); err != nil || !slices.Equal(ids, want) {
					t.Error(ids, err)
				}
			}
		})
	}
	group.Wait()
}
