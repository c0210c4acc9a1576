package app

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/routerfleet/routerfleet/router/index"
	"github.com/routerfleet/routerfleet/router/proxy"
	"github.com/routerfleet/routerfleet/router/tokens/chat"
	"github.com/routerfleet/routerfleet/router/tokens/parity"
	"github.com/routerfleet/routerfleet/router/tokens/remote"
	"github.com/routerfleet/routerfleet/router/workers/workerstest"
	"github.com/routerfleet/routerfleet/test/data/toymodel"
)

func toyFiles(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := toymodel.Write(dir, toymodel.Plain); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestTokenizationFlagsThatMakeNoSenseAreRefused(t *testing.T) {
	for want, o := range map[string]TokenOptions{
		"--chat-template does nothing":   {ChatTemplate: "x.jinja"},
		"--default-chat-template-kwargs": {DefaultKwargs: "[1]"},
		"--engine-tokenize-timeout-ms":   {EngineTokenizeTimeout: maxEngineTokenizeMS + 1},
		"--engine-tokenize-cache-mb":     {EngineTokenizeCacheMB: -1},
	} {
		err := Options{Worker: []string{"http://127.0.0.1:1"}, TokenOptions: o}.Validate()
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", o, err, want)
		}
	}
	err := Options{Worker: []string{"http://127.0.0.1:1"}, ModelsFile: "m.yaml", TokenOptions: TokenOptions{TokenizerPath: "x"}}.Validate()
	if err == nil || !strings.Contains(err.Error(), "--tokenizer-path is for one model") {
		t.Errorf("both a path and a models file: %v", err)
	}
	if err := (Options{Worker: []string{"http://127.0.0.1:1"}, TokenOptions: TokenOptions{TokenizerPath: "x", ChatTemplate: "y", DefaultKwargs: `{"a":1}`}}).Validate(); err != nil {
		t.Error(err)
	}
}

// A router that would run without the tokenizer it was given is worse than one that does not start.
func TestAFileThatCannotBeUsedEndsTheStartWithItsName(t *testing.T) {
	broken := toyFiles(t)
	if err := os.WriteFile(filepath.Join(broken, "chat_template.jinja"), []byte("{% include 'x' %}"), 0o600); err != nil {
		t.Fatal(err)
	}
	wordPiece := t.TempDir()
	if err := os.WriteFile(filepath.Join(wordPiece, "tokenizer.json"), []byte(`{"model":{"type":"WordPiece","vocab":{}}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	off := false
	for name, c := range map[string]struct {
		options Options
		want    []string
	}{
		"no such place":         {Options{TokenOptions: TokenOptions{TokenizerPath: "/no/such/place"}}, []string{"--tokenizer-path", "/no/such/place"}},
		"another kind":          {Options{TokenOptions: TokenOptions{TokenizerPath: wordPiece}}, []string{"--tokenizer-path", "tokenizer.json", "WordPiece"}},
		"a template beyond us":  {Options{TokenOptions: TokenOptions{TokenizerPath: broken}}, []string{"chat_template.jinja", "include"}},
		"though nobody uses it": {Options{Policy: "round_robin", KVOptions: KVOptions{KVEvents: &off}, TokenOptions: TokenOptions{TokenizerPath: "/no/such/place"}}, []string{"/no/such/place"}},
	} {
		c.options.Worker = []string{"http://127.0.0.1:1"}
		_, err := New(c.options)
		for _, want := range c.want {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, want %q", name, err, want)
			}
		}
	}
}

func TestEachModelHasItsOwnTokenizer(t *testing.T) {
	file := filepath.Join(t.TempDir(), "models.yaml")
	first, second := toyFiles(t), toyFiles(t)
	text := "models:\n- name: a\n  tokenizer: {path: " + first + "}\n- name: b\n  tokenizer: {path: " + second + "}\n- name: c\n- name: d\n  tokenizer: {path: " + first + "}\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	a, err := New(Options{Worker: []string{"http://127.0.0.1:1"}, ModelsFile: file})
	if err != nil {
		t.Fatal(err)
	}
	of := a.tokenization.of
	if of("a") == nil || of("b") == nil || of("a") == of("b") || of("a") != of("d") {
		t.Error("models share what is not theirs, or read one file twice")
	}
	if of("c") != nil || a.tokenization.own("c") != nil || a.tokenization.encoder("x") != nil {
		t.Error("a model without a tokenizer has one")
	}
	one, err := New(Options{Worker: []string{"http://127.0.0.1:1"}, TokenOptions: TokenOptions{TokenizerPath: first}})
	if err != nil {
		t.Fatal(err)
	}
	if one.tokenization.of("whatever") == nil || one.tokenization.own("whatever") == nil {
		t.Error("--tokenizer-path is for whatever the engines serve")
	}
}

func TestAModelIsReadUnderEachOfItsNamesByEnginesOfEachDialect(t *testing.T) {
	registry := workerstest.Registry(t, workerstest.Worker{ID: "a", URL: "http://a:1", Models: []string{"m", "short"}})
	if got := names(registry.Snapshot().Workers()[0].Worker, "m"); !slices.Equal(got, []string{"m", "short"}) {
		t.Errorf("names %v", got)
	}
	engine := func(id string, d chat.Dialect) parity.Engine {
		return parity.Engine{Engine: remote.Engine{ID: id, Dialect: d}}
	}
	var readers []proxy.Reader
	for _, e := range []parity.Engine{engine("a", chat.VLLM), engine("b", chat.SGLang), engine("c", chat.VLLM)} {
		readers = withEngine(readers, e)
	}
	if len(readers) != 2 || len(readers[0].Engines) != 2 || readers[0].Dialect != chat.VLLM || readers[1].Engines[0].ID != "b" {
		t.Errorf("%+v", readers)
	}
	for scheme, want := range map[index.Scheme]chat.Dialect{index.SchemeSGLang: chat.SGLang, index.SchemeVLLM: chat.VLLM, index.SchemeTokens: chat.VLLM} {
		if got := dialect(scheme); got != want {
			t.Errorf("%s is read as %s", scheme, got)
		}
	}
}
