package chat

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/routerfleet/routerfleet/router/tokens/jinja"
)

// plain turns decoded values into those of encoding/json, the dumb twin.
func plain(v any) any {
	switch v := v.(type) {
	case int64:
		return float64(v)
	case jinja.Big:
		var f float64
		_ = json.Unmarshal([]byte(v), &f) // It is a number by then.
		return f
	case *jinja.List:
		list := make([]any, len(v.Items))
		for i, item := range v.Items {
			list[i] = plain(item)
		}
		return list
	case *jinja.Dict:
		object := map[string]any{}
		for i := range v.Len() {
			key, value := v.At(i)
			object[key] = plain(value)
		}
		return object
	}
	return v
}

// unsigned makes zeros positive: Python's integers have no other.
func unsigned(v any) any {
	switch v := v.(type) {
	case float64:
		return v + 0 // -0 + 0 is 0
	case []any:
		for i := range v {
			v[i] = unsigned(v[i])
		}
	case map[string]any:
		for k := range v {
			v[k] = unsigned(v[k])
		}
	}
	return v
}

func FuzzDecode(f *testing.F) {
	for _, text := range []string{`{"a":[1,-2.5e3,true,null,"x\u00e9\ud83d\ude00\n"],"a":{}}`, `"\ud800"`, `[0,-0,1E5,123456789012345678901234567890]`, `{"b":1,"a":2,"b":3}`, ` [ ] `} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		v, err := decode(data)
		var twin any
		twinErr := json.Unmarshal(data, &twin)
		if err != nil {
			return // It may refuse more: halves of characters, text that is no UTF-8, nesting.
		}
		if twinErr != nil {
			t.Fatalf("%q was decoded, and is no JSON: %v", data, twinErr)
		}
		ours, err := json.Marshal(unsigned(plain(v)))
		if err != nil {
			t.Fatal(err)
		}
		theirs, err := json.Marshal(unsigned(twin))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(ours, theirs) {
			t.Fatalf("%q: %s, want %s", data, ours, theirs)
		}
	})
}

// Whatever a client sends, there is a text or an error.
func FuzzRender(f *testing.F) {
	for _, body := range conversations(f) {
		f.Add([]byte(body))
	}
	templates := []*Template{must(f, dump), must(f, byParts)}
	f.Fuzz(func(t *testing.T, body []byte) {
		for _, template := range templates {
			for _, d := range []Dialect{VLLM, SGLang} {
				text, err := template.Render([]byte("pre"), body, Options{Dialect: d, MaxBytes: 1 << 20})
				if err != nil && string(text.Text) != "pre" {
					t.Errorf("%q: an error and the text %q", body, text.Text)
				}
			}
		}
	})
}

// What is small in a body and large in memory is not read to its end.
func TestABodyOfTooManyOrTooDeepValuesIsTooLong(t *testing.T) {
	lists := func(n int) []byte { return []byte("[" + strings.Repeat("[],", n-2) + "[]]") }
	deep := func(n int) []byte { return []byte(strings.Repeat("[", n) + strings.Repeat("]", n)) }
	for name, c := range map[string]struct {
		body []byte
		want error
	}{
		"as many": {lists(maxValues), nil}, "one more": {lists(maxValues + 1), ErrTooLong},
		"as deep": {deep(maxDepth + 1), nil}, "deeper": {deep(maxDepth + 2), ErrTooLong},
	} {
		if _, err := decode(c.body); !errors.Is(err, c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	body := `{"messages":[{"role":"user","content":"x"}],"x":` + string(lists(maxValues)) + `}`
	if _, err := must(t, "{{ messages }}").Render(nil, []byte(body), Options{}); !errors.Is(err, ErrTooLong) {
		t.Errorf("a chat with them: %v", err)
	}
}

// vLLM reads arguments with Python's json, which takes more than JSON has: of these there is no guess.
func TestArgumentsThatOnlyPythonReadsAreNotTakenForNone(t *testing.T) {
	for arguments, want := range map[string]error{
		`{"a":1}`: nil, `{`: nil, `{"a":NaN}`: ErrOptions, `[-Infinity]`: ErrOptions, `{"a":"\ud800"}`: ErrOptions,
		strings.Repeat("[", maxDepth+2) + strings.Repeat("]", maxDepth+2): ErrTooLong,
	} {
		quoted, err := json.Marshal(arguments)
		if err != nil {
			t.Fatal(err)
		}
		body := `{"messages":[{"role":"assistant","tool_calls":[{"function":{"name":"f","arguments":` + string(quoted) + `}}]}]}`
		if _, err := must(t, "{{ messages }}").Render(nil, []byte(body), Options{Dialect: VLLM}); !errors.Is(err, want) {
			t.Errorf("%.40s: %v, want %v", arguments, err, want)
		}
	}
}

func TestPartsThatAreNoTextAreFoundWherever(t *testing.T) {
	for content, want := range map[string]error{
		`"x"`: nil, `null`: nil, `[]`: nil, `["x",{"type":"text","text":"x"},{"type":"refusal","refusal":"x"}]`: nil,
		`[{"type":"text","text":"x"},{"type":"image_url","image_url":{"url":"x"}}]`: ErrMedia, `[{"image_url":"x"}]`: ErrMedia, `[7]`: ErrInvalid,
	} {
		body := `{"messages":[{"role":"user","content":"x"},{"role":"tool","content":` + content + `}]}`
		if err := OnlyText([]byte(body)); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", content, err, want)
		}
	}
	for body, want := range map[string]error{`{}`: nil, `{"messages":[null]}`: nil, `[]`: ErrInvalid, `{`: ErrInvalid} {
		if err := OnlyText([]byte(body)); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", body, err, want)
		}
	}
}

func TestMembersKeepTheirOrderAndNumbersTheirKind(t *testing.T) {
	got := rendered(t, "{{ messages[0]|tojson }}{{ kw|tojson }}", `{"messages":[{"role":"user","content":"x"}],"chat_template_kwargs":{"kw":{"z":1,"a":1.0,"m":1e3,"b":-0,"big":123456789012345678901,"z":2,"nest":{"y":null,"x":[]}}}}`, VLLM)
	if want := `{"role": "user", "content": "x"}{"z": 2, "a": 1.0, "m": 1000.0, "b": 0, "big": 123456789012345678901, "nest": {"y": null, "x": []}}`; got != want {
		t.Errorf("\n  got %s\n want %s", got, want)
	}
}

func BenchmarkRender(b *testing.B) {
	template := must(b, `{%- for message in messages %}{{- '<|im_start|>' + message.role + '\n' }}{%- if message.content %}{{- message.content }}{%- endif %}{%- if message.tool_calls %}{%- for call in message.tool_calls %}{{- call.function.name ~ (call.function.arguments|tojson) }}{%- endfor %}{%- endif %}{{- '<|im_end|>\n' }}{%- endfor %}{%- if add_generation_prompt %}{{- '<|im_start|>assistant\n' }}{%- endif %}`)
	bodies := conversations(b)
	b.ReportAllocs()
	for b.Loop() {
		for _, body := range bodies {
			if _, err := template.Render(nil, body, Options{}); err != nil {
				b.Fatal(err)
			}
		}
	}
	b.ReportMetric(float64(len(bodies)*b.N)/b.Elapsed().Seconds(), "chats/s")
}
