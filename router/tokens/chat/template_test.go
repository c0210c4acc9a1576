package chat

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/routerfleet/routerfleet/router/tokens/jinja"
)

// dump shows a template all that it is given.
const dump = `{{ messages|tojson }}|{{ tools|tojson }}|{{ add_generation_prompt|tojson }}`

// byParts is a template that goes through the parts of a message.
const byParts = `{% for message in messages %}{{ message.role }}:{% if message['content'] is string %}{{ message['content'] }}{% else %}{% for part in message['content'] %}[{{ part.type }} {{ part.text }}]{% endfor %}{% endif %};{% endfor %}`

func must(t testing.TB, source string) *Template {
	t.Helper()
	template, err := New(source, jinja.NewDict("bos_token", "<s>"))
	if err != nil {
		t.Fatal(err)
	}
	return template
}

func rendered(t testing.TB, source, body string, d Dialect) string {
	t.Helper()
	text, err := must(t, source).Render(nil, []byte(body), Options{Dialect: d})
	if err != nil {
		t.Fatalf("%s: %v", body, err)
	}
	return string(text.Text)
}

// Expected texts are what the engines' servers hand to apply_chat_template, read in their sources (vLLM main and SGLang
// main of 2026), written as json.dumps writes it.
func TestATemplateSeesWhatTheEngineHandsToIt(t *testing.T) {
	for _, c := range []struct{ body, vllm, sglang string }{
		{`{"messages":[{"role":"user","content":"a","name":"n"}]}`,
			`[{"role": "user", "content": "a", "name": "n"}]|null|true`,
			`[{"role": "user", "content": "a"}]|null|true`},
		{`{"messages":[{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}]}`,
			`[{"role": "user", "content": "a\nb"}]|null|true`,
			`[{"role": "user", "content": "a b"}]|null|true`},
		{`{"messages":[{"role":"assistant","content":null,"tool_calls":[{"id":"1","type":"function","function":{"name":"f","arguments":"{\"b\": 1.0, \"a\": 1e2, \"n\": 123456789012345678901}"}}]}]}`,
			`[{"role": "assistant", "content": "", "tool_calls": [{"id": "1", "type": "function", "function": {"name": "f", "arguments": {"b": 1.0, "a": 100.0, "n": 123456789012345678901}}}]}]|null|true`,
			`[{"role": "assistant", "content": "", "tool_calls": [{"id": "1", "index": null, "type": "function", "function": {"name": "f", "arguments": {"b": 1.0, "a": 100.0, "n": 123456789012345678901}}}]}]|null|true`},
		{`{"messages":[{"role":"tool","tool_call_id":"1","content":"r","extra":1},{"role":"user","content":"x"}],"tools":[{"type":"function","function":{"parameters":{"z":1,"a":2},"name":"f"}}]}`,
			`[{"role": "tool", "content": "r", "tool_call_id": "1"}, {"role": "user", "content": "x"}]|[{"type": "function", "function": {"name": "f", "description": null, "parameters": {"z": 1, "a": 2}}}]|true`,
			`[{"role": "tool", "content": "r", "tool_call_id": "1"}, {"role": "user", "content": "x"}]|[{"type": "function", "function": {"description": null, "name": "f", "parameters": {"z": 1, "a": 2}, "strict": false}}]|true`},
		{`{"messages":[{"role":"user","content":"x"}],"tools":[{"type":"function","function":{"name":"f"}},{"type":"function","function":{"name":"g","strict":true}}],"tool_choice":{"type":"function","function":{"name":"g"}}}`,
			`[{"role": "user", "content": "x"}]|[{"type": "function", "function": {"name": "f", "description": null, "parameters": null}}, {"type": "function", "function": {"name": "g", "description": null, "parameters": null, "strict": true}}]|true`,
			`[{"role": "user", "content": "x"}]|[{"type": "function", "function": {"description": null, "name": "g", "parameters": null, "strict": true}}]|true`},
		{`{"messages":[{"role":"user","content":"x"}],"tools":[{"type":"function","function":{"name":"f"}}],"tool_choice":"none","add_generation_prompt":false}`,
			`[{"role": "user", "content": "x"}]|[{"type": "function", "function": {"name": "f", "description": null, "parameters": null}}]|false`,
			`[{"role": "user", "content": "x"}]|null|true`},
	} {
		for d, want := range map[Dialect]string{VLLM: c.vllm, SGLang: c.sglang} {
			if got := rendered(t, dump, c.body, d); got != want {
				t.Errorf("%s for %s\n  got %s\n want %s", c.body, d, got, want)
			}
		}
	}
}

func TestATemplateOfPartsGetsPartsAsTheEngineMakesThem(t *testing.T) {
	for _, c := range []struct{ body, vllm, sglang string }{
		{`{"messages":[{"role":"user","content":"a"}]}`, "user:[text a];", "user:a;"},
		{`{"messages":[{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}]}`, "user:[text a][text b];", "user:[text a][text b];"},
		{`{"messages":[{"role":"assistant"}]}`, "assistant:;", "assistant:;"},
	} {
		for d, want := range map[Dialect]string{VLLM: c.vllm, SGLang: c.sglang} {
			if got := rendered(t, byParts, c.body, d); got != want {
				t.Errorf("%s for %s: %q, want %q", c.body, d, got, want)
			}
		}
	}
}

func TestEnginesTakeATemplateForOneOfPartsByItsLoops(t *testing.T) {
	for source, want := range map[string][2]bool{
		`{% for message in messages %}{{ message.content }}{% endfor %}`:                                                                  {false, false},
		`{% for message in messages %}{% for c in message.content %}{% endfor %}{% endfor %}`:                                             {true, true},
		`{% for m in messages[1:] %}{% for c in m['content']|list %}{% endfor %}{% endfor %}`:                                             {true, true},
		`{% set loop_messages = messages %}{% for turn in loop_messages %}{% for c in turn.content %}{% endfor %}{% endfor %}`:            {true, false},
		`{% macro m(message) %}{% for c in message.content %}{% endfor %}{% endmacro %}{% for x in messages %}{{ m(x) }}{% endfor %}`:     {false, true},
		`{% for message in messages %}{{ message.content }}{# no image here #}{% endfor %}`:                                               {false, true},
		`{% for message in messages %}{% set content = message.content %}{% for c in content %}{% endfor %}{% endfor %}`:                  {false, false},
		`{% if true %}{% for message in messages if message.role %}{% for c in message.content[1:] %}{% endfor %}{% endfor %}{% endif %}`: {true, true},
	} {
		if got := must(t, source).plain.parts; got != want {
			t.Errorf("%s: vllm, sglang %v, want %v", source, got, want)
		}
	}
}

func TestKwargsComeOverTheEnginesAndNamedMembersOverBoth(t *testing.T) {
	template := must(t, `{{ bos_token }}{{ a }}{{ b }}{{ c }}{{ reasoning_effort|default('none') }}{{ documents|tojson }}`)
	defaults, err := ParseKwargs(`{"a":1,"b":2,"c":3}`)
	if err != nil {
		t.Fatal(err)
	}
	text, err := template.Render([]byte("pre "), []byte(`{"messages":[{"role":"user","content":"x"}],"chat_template_kwargs":{"b":"B","bos_token":"<x>"},"reasoning_effort":"low","documents":[{"title":"t"}]}`), Options{Kwargs: defaults})
	if want := `pre <x>1B3low[{"title": "t"}]`; err != nil || string(text.Text) != want {
		t.Errorf("%q, %v, want %q", text.Text, err, want)
	}
	if kwargs, err := ParseKwargs(""); kwargs != nil || err != nil {
		t.Errorf("%v, %v", kwargs, err)
	}
	if _, err := ParseKwargs("[1]"); err == nil {
		t.Error("a list was taken for kwargs")
	}
}

func TestAContinuedMessageEndsThePromptAsTheEngineEndsIt(t *testing.T) {
	const source = `{% for m in messages %}<{{ m.role }}>{{ m.content|trim }}</>{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}`
	body := `{"messages":[{"role":"user","content":"q"},{"role":"assistant","content":%q}],"continue_final_message":true,"add_generation_prompt":false}`
	for content, want := range map[string]map[Dialect]string{
		"begun":     {VLLM: "<user>q</><assistant>begun", SGLang: "<user>q</><assistant>begun"},
		"trailing ": {VLLM: "<user>q</><assistant>trailing", SGLang: "<user>q</><assistant>trailing "},
		"q":         {VLLM: "<user>q</><assistant>q", SGLang: "<user>q</><assistant>q"},
	} {
		for d, text := range want {
			if got := rendered(t, source, fmt.Sprintf(body, content), d); got != text {
				t.Errorf("%q for %s: %q, want %q", content, d, got, text)
			}
		}
	}
}

func TestWhatMakesAnotherPromptHasNoText(t *testing.T) {
	const ok = `"messages":[{"role":"user","content":"x"}]`
	for body, want := range map[string]error{
		`{"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"http://x"}}]}]}`:                ErrMedia,
		`{"messages":[{"role":"user","content":[{"type":"text","text":"a"},{"type":"input_audio","input_audio":{}}]}]}`: ErrMedia,
		`{"messages":[{"role":"user","content":[{"type":"file"}]}]}`:                                                    ErrMedia,
		`{` + ok + `,"chat_template":"{{ x }}"}`:                                                                        ErrOptions,
		`{` + ok + `,"input_ids":[1]}`:                                                                                  ErrOptions,
		`{` + ok + `,"chat_template_kwargs":{"messages":[]}}`:                                                           ErrOptions,
		`{` + ok + `,"tools":[{"type":"web_search"}]}`:                                                                  ErrOptions,
		`{` + ok + `,"tools":[{"type":"function","function":{"name":"f"},"cache_control":{}}]}`:                         ErrOptions,
		`{"messages":[]}`:                                      ErrInvalid,
		`{"messages":"x"}`:                                     ErrInvalid,
		`{"messages":[1]}`:                                     ErrInvalid,
		`{"messages":[{"content":"x"}]}`:                       ErrInvalid,
		`{"messages":[{"role":"user","content":1}]}`:           ErrInvalid,
		`{"messages":[{"role":"user","content":"\ud800"}]}`:    ErrInvalid,
		`{` + ok + `,"add_generation_prompt":1}`:               ErrInvalid,
		`{` + ok + `,"tools":{}}`:                              ErrInvalid,
		`{` + ok + `,"chat_template_kwargs":[]}`:               ErrInvalid,
		`[]`:                                                   ErrInvalid,
		`{` + ok + `,"continue_final_message":true}`:           ErrInvalid,
		`{` + ok + `,"deep":` + strings.Repeat("[", 600) + `1`: ErrTooLong,
	} {
		text, err := must(t, dump).Render([]byte("pre"), []byte(body), Options{Dialect: VLLM})
		if !errors.Is(err, want) || string(text.Text) != "pre" {
			t.Errorf("%.120s: %q, %v, want %v", body, text.Text, err, want)
		}
	}
}

// vLLM's versions differ in whether a template sees earlier reasoning. Where it would not show it, nothing depends on that.
func TestReasoningOfEarlierTurnsIsAnOptionWhereTheTemplateShowsIt(t *testing.T) {
	const body = `{"messages":[{"role":"assistant","content":"x","reasoning_content":"r"}]}`
	const shows = `{% for m in messages %}{{ m.content }}{{ m.reasoning_content }}{% endfor %}`
	if _, err := must(t, shows).Render(nil, []byte(body), Options{Dialect: VLLM}); !errors.Is(err, ErrOptions) {
		t.Errorf("a template that shows it: %v", err)
	}
	if _, err := must(t, dump).Render(nil, []byte(body), Options{Dialect: VLLM}); !errors.Is(err, ErrOptions) {
		t.Errorf("a template that writes all members: %v", err)
	}
	if got := rendered(t, shows, body, SGLang); got != "xr" {
		t.Errorf("SGLang: %q", got)
	}
	if got := rendered(t, `{% for m in messages %}{{ m.content }}{% endfor %}`, body, VLLM); got != "x" {
		t.Errorf("a template that does not: %q", got)
	}
}

func TestATemplateMayRefuseAChat(t *testing.T) {
	_, err := must(t, `{{ raise_exception('no system') }}`).Render(nil, []byte(`{"messages":[{"role":"system","content":"x"}]}`), Options{})
	if raised, ok := errors.AsType[*jinja.RaisedError](err); !ok || raised.Message != "no system" {
		t.Error(err)
	}
}

func TestTheDayInATemplateIsTheRequests(t *testing.T) {
	day := func() time.Time { return time.Date(2026, 7, 26, 23, 59, 0, 0, time.UTC) }
	text, err := must(t, `{{ strftime_now("%d %b %Y") }}`).Render(nil, []byte(`{"messages":[{"role":"user","content":"x"}]}`), Options{Now: day})
	if err != nil || string(text.Text) != "26 Jul 2026" {
		t.Errorf("%q, %v", text.Text, err)
	}
}

func TestOnlyVLLMFramesAChatWhenAsked(t *testing.T) {
	body := []byte(`{"messages":[{"role":"user","content":"x"}],"add_special_tokens":true}`)
	for d, want := range map[Dialect]bool{VLLM: true, SGLang: false} {
		text, err := must(t, "x").Render(nil, body, Options{Dialect: d})
		if err != nil || text.Framed != want {
			t.Errorf("%s: framed %v, %v", d, text.Framed, err)
		}
	}
}
