package httpapi

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/routerfleet/routerfleet/test/enginesim"
	"github.com/routerfleet/routerfleet/test/enginesim/tokenizer"
)

func TestAllFourFormsOfAPromptAreAnswered(t *testing.T) {
	bubble(t, enginesim.Options{PageSize: 4}, Options{}, func(f *fixture) {
		for _, c := range []struct {
			prompt  string
			tokens  int
			answers int
		}{
			{`"hello"`, 5, 1},
			{`["hello","you"]`, 8, 2},
			{`[1, 2, 3]`, 3, 1},
			{`[[1,2,3],[4]]`, 4, 2},
			{`["hi",[7,8,9]]`, 5, 2},
		} {
			got := decode[textCompletion](t, f.post("/v1/completions", `{"prompt":`+c.prompt+`,"max_tokens":3}`))
			if got.Usage.PromptTokens != c.tokens || len(got.Choices) != c.answers || got.Usage.CompletionTokens != 3*c.answers {
				t.Errorf("prompt %s: usage %+v and %d choices, want %d prompt tokens and %d choices of 3", c.prompt, got.Usage, len(got.Choices), c.tokens, c.answers)
			}
			for i, choice := range got.Choices {
				if choice.Index != i || len(choice.Text) != 3 || *choice.FinishReason != "length" {
					t.Errorf("prompt %s: choice %+v", c.prompt, choice)
				}
			}
		}
	})
}

func TestTextAndItsTokenIdsAreOnePrompt(t *testing.T) {
	bubble(t, enginesim.Options{PageSize: 2}, Options{}, func(f *fixture) {
		ids, err := json.Marshal(tokenizer.Encode("hello"))
		if err != nil {
			t.Fatal(err)
		}
		a := decode[textCompletion](t, f.post("/v1/completions", `{"prompt":"hello"}`))
		b := decode[textCompletion](t, f.post("/v1/completions", `{"prompt":`+string(ids)+`}`))
		if a.Choices[0].Text != b.Choices[0].Text || b.Usage.Details.CachedTokens != 4 {
			t.Errorf("answers %q and %q, second found %d tokens; want one answer and 4", a.Choices[0].Text, b.Choices[0].Text, b.Usage.Details.CachedTokens)
		}
	})
}

func TestTheSecondTurnFindsTheFirstInTheCache(t *testing.T) {
	type chat struct {
		Choices []struct{ Message struct{ Content string } }
		Usage   usage
	}
	bubble(t, enginesim.Options{PageSize: 1}, Options{}, func(f *fixture) {
		first := decode[chat](t, f.post("/v1/chat/completions", `{"messages":[{"role":"user","content":"hello"}],"max_tokens":9}`))
		second := decode[chat](t, f.post("/v1/chat/completions", fmt.Sprintf(
			`{"messages":[{"role":"user","content":"hello"},{"role":"assistant","content":%q},{"role":"user","content":"go on"}]}`,
			first.Choices[0].Message.Content)))
		// All of the first turn but its newest token, whose page was never computed.
		if want := first.Usage.TotalTokens - 1; second.Usage.Details.CachedTokens != want {
			t.Errorf("found %d tokens, want %d", second.Usage.Details.CachedTokens, want)
		}
	})
}

func TestCacheSaltsShareNothing(t *testing.T) {
	bubble(t, enginesim.Options{PageSize: 2}, Options{}, func(f *fixture) {
		for _, c := range []struct {
			salt string
			want int
		}{{"a", 0}, {"b", 0}, {"", 0}, {"a", 4}} {
			got := decode[textCompletion](t, f.post("/v1/completions", `{"prompt":"hello","cache_salt":"`+c.salt+`"}`))
			if got.Usage.Details.CachedTokens != c.want {
				t.Errorf("salt %q: %d cached tokens, want %d", c.salt, got.Usage.Details.CachedTokens, c.want)
			}
		}
	})
}

func TestStreamAndPlainSayTheSame(t *testing.T) {
	const body = `{"prompt":["one","two"],"n":2,"max_tokens":12`
	bubble(t, enginesim.Options{TokenInterval: time.Millisecond}, Options{}, func(f *fixture) {
		plain := decode[textCompletion](t, f.post("/v1/completions", body+`}`))
		stream := f.post("/v1/completions", body+`,"stream":true,"stream_options":{"include_usage":true}}`)
		all := events(stream.body)
		if last := all[len(all)-1]; last != "[DONE]" {
			t.Fatalf("the stream ends with %q", last)
		}
		texts, finished := make([]string, 4), make([]string, 4)
		for _, data := range all[:len(all)-1] {
			var chunk textCompletion
			if err := json.Unmarshal([]byte(data), &chunk); err != nil {
				t.Fatalf("event %s: %v", data, err)
			}
			for _, c := range chunk.Choices {
				texts[c.Index] += c.Text
				if c.FinishReason != nil {
					finished[c.Index] += *c.FinishReason
				}
			}
			if chunk.Usage != nil && *chunk.Usage != (usage{6, 48, 54, promptDetails{}}) {
				t.Errorf("usage %+v, want 6 + 48", chunk.Usage)
			}
		}
		for i, choice := range plain.Choices {
			if texts[i] != choice.Text || finished[i] != *choice.FinishReason {
				t.Errorf("choice %d: stream %q (%s), plain %q (%s)", i, texts[i], finished[i], choice.Text, *choice.FinishReason)
			}
		}
	})
}

func TestUsageIsStreamedOnlyWhenAskedFor(t *testing.T) {
	bubble(t, enginesim.Options{}, Options{}, func(f *fixture) {
		for _, options := range []string{`"stream":true`, `"stream":true,"stream_options":{}`, `"stream":true,"stream_options":null`} {
			if got := f.post("/v1/completions", `{"prompt":"x",`+options+`}`); strings.Contains(got.body, `"usage"`) {
				t.Errorf("%s: %s", options, got.body)
			}
		}
	})
}

func TestAStopStringEndsTheAnswerBeforeItself(t *testing.T) {
	bubble(t, enginesim.Options{}, Options{}, func(f *fixture) {
		whole := decode[textCompletion](t, f.post("/v1/completions", `{"prompt":"x","max_tokens":40}`)).Choices[0].Text
		early, late := whole[10:12], whole[20:23]
		cut := strings.Index(whole, early)
		for _, stop := range []string{fmt.Sprintf("%q", early), fmt.Sprintf("[%q,%q]", late, early)} {
			got := decode[textCompletion](t, f.post("/v1/completions", `{"prompt":"x","max_tokens":40,"stop":`+stop+`}`))
			if c := got.Choices[0]; c.Text != whole[:cut] || *c.FinishReason != "stop" || got.Usage.CompletionTokens != cut+2 {
				t.Errorf("stop %s: %q (%s, %d tokens), want %q", stop, c.Text, *c.FinishReason, got.Usage.CompletionTokens, whole[:cut])
			}
		}
		if s := f.post("/v1/completions", fmt.Sprintf(`{"prompt":"x","max_tokens":40,"stream":true,"stop":%q}`, early)); strings.Count(s.body, `"text":"`) != cut+1 {
			t.Errorf("the stream shows more than the %d characters before the stop string", cut)
		}
	})
}

func TestGenerateSpeaksSGLang(t *testing.T) {
	type meta struct {
		FinishReason *struct {
			Type   string
			Length int
		} `json:"finish_reason"`
		PromptTokens int `json:"prompt_tokens"`
		CachedTokens int `json:"cached_tokens"`
	}
	type out struct {
		Text      string
		OutputIDs []uint32 `json:"output_ids"`
		Meta      meta     `json:"meta_info"`
	}
	bubble(t, enginesim.Options{PageSize: 2}, Options{}, func(f *fixture) {
		one := decode[out](t, f.post("/generate", `{"text":"hello","sampling_params":{"max_new_tokens":4}}`))
		if one.Text != tokenizer.Decode(one.OutputIDs) || len(one.OutputIDs) != 4 || one.Meta.FinishReason.Length != 4 || one.Meta.PromptTokens != 5 {
			t.Errorf("one prompt: %+v", one)
		}
		batch := decode[[]out](t, f.do(http.MethodPut, "/generate", `{"input_ids":[[104,101,108,108,111],[1]],"sampling_params":{"max_new_tokens":4}}`))
		if len(batch) != 2 || batch[0].Text != one.Text || batch[0].Meta.CachedTokens != 4 {
			t.Errorf("batch: %+v", batch)
		}
		var texts []string
		for _, data := range events(f.post("/generate", `{"text":"hello","stream":true,"sampling_params":{"max_new_tokens":4}}`).body) {
			var chunk out
			if data != "[DONE]" && json.Unmarshal([]byte(data), &chunk) == nil {
				texts = append(texts, chunk.Text)
			}
		}
		if want := []string{one.Text[:1], one.Text[:2], one.Text[:3], one.Text, one.Text}; !slices.Equal(texts, want) {
			t.Errorf("cumulative chunks %q, want %q", texts, want)
		}
	})
}

func TestTheRankHeaderChooses(t *testing.T) {
	bubble(t, enginesim.Options{DPSize: 3, PageSize: 1}, Options{}, func(f *fixture) {
		for _, rank := range []string{"2", "1", "2"} {
			if got := f.post("/v1/completions", `{"prompt":"hello"}`, "X-Data-Parallel-Rank", rank); got.status != 200 {
				t.Fatalf("rank %s: %d %s", rank, got.status, got.body)
			}
			if got := f.lastRecord(); fmt.Sprint(got.Rank) != rank {
				t.Errorf("served by rank %d, want %s", got.Rank, rank)
			}
		}
		if got := f.lastRecord().CachedTokens; got != 4 {
			t.Errorf("the second time on rank 2 found %d tokens, want 4", got)
		}
		for _, rank := range []string{"3", "-1", "x"} {
			if got := f.post("/v1/completions", `{"prompt":"hello"}`, "X-Data-Parallel-Rank", rank); got.status != 400 {
				t.Errorf("rank %s: got %d, want 400", rank, got.status)
			}
		}
	})
}

func TestVLLMHasNoSGLangRoutes(t *testing.T) {
	bubble(t, enginesim.Options{}, Options{Dialect: VLLM}, func(f *fixture) {
		for path, want := range map[string]int{"/server_info": 404, "/generate": 404, "/flush_cache": 404, "/v1/models": 200, "/health": 200, "/metrics": 200} {
			method := http.MethodGet
			if want == 404 && path != "/server_info" {
				method = http.MethodPost
			}
			if got := f.do(method, path, "{}"); got.status != want {
				t.Errorf("%s %s: got %d, want %d", method, path, got.status, want)
			}
		}
	})
}

func TestServerInfoDescribesTheEngine(t *testing.T) {
	bubble(t, enginesim.Options{DPSize: 2, PageSize: 16, Blocks: 100}, Options{Model: "m"}, func(f *fixture) {
		got := decode[map[string]any](t, f.do(http.MethodGet, "/server_info", ""))
		for key, want := range map[string]any{"model_path": "m", "served_model_name": "m", "dp_size": 2.0, "page_size": 16.0, "max_total_num_tokens": 1600.0, "context_length": 1600.0} {
			if got[key] != want {
				t.Errorf("%s: got %v, want %v", key, got[key], want)
			}
		}
		if at := got["start_time"].(float64); at != float64(time.Now().Unix()) {
			t.Errorf("start_time %v, want the bubble's %d", at, time.Now().Unix())
		}
		if _, there := got["kv_events"]; there {
			t.Error("kv_events is advertised, and nothing publishes")
		}
	})
}

func TestModelsNamesTheModel(t *testing.T) {
	bubble(t, enginesim.Options{}, Options{Model: "m"}, func(f *fixture) {
		got := decode[struct{ Data []struct{ ID string } }](t, f.do(http.MethodGet, "/v1/models", ""))
		if len(got.Data) != 1 || got.Data[0].ID != "m" {
			t.Errorf("got %+v", got)
		}
	})
}

func TestTokenizeCountsWhatThePromptCosts(t *testing.T) {
	bubble(t, enginesim.Options{}, Options{}, func(f *fixture) {
		got := decode[struct {
			Tokens []uint32
			Count  int
		}](t, f.post("/tokenize", `{"messages":[{"role":"user","content":"hé"}]}`))
		usage := decode[textCompletion](t, f.post("/v1/chat/completions", `{"messages":[{"role":"user","content":"hé"}]}`)).Usage
		if got.Count != len(got.Tokens) || got.Count != usage.PromptTokens {
			t.Errorf("count %d, %d tokens, usage %d: want one number", got.Count, len(got.Tokens), usage.PromptTokens)
		}
	})
}

func TestDrainingAnswersProbesNoAndRequestsYes(t *testing.T) {
	bubble(t, enginesim.Options{}, Options{}, func(f *fixture) {
		f.server.Drain()
		for path, want := range map[string]int{"/health": 503, "/ready": 503, "/v1/models": 200} {
			if got := f.do(http.MethodGet, path, ""); got.status != want {
				t.Errorf("%s: got %d, want %d", path, got.status, want)
			}
		}
		if got := f.post("/v1/completions", `{"prompt":"x"}`); got.status != 200 || !f.state().Draining {
			t.Errorf("request while draining: %d", got.status)
		}
	})
}

func TestAnswersNameTheEngine(t *testing.T) {
	bubble(t, enginesim.Options{}, Options{Name: "engine-7"}, func(f *fixture) {
		if got := decode[textCompletion](t, f.post("/v1/completions", `{"prompt":"x"}`)); got.Fingerprint != "engine-7" {
			t.Errorf("system_fingerprint %q", got.Fingerprint)
		}
	})
}

func TestOptionsReportEverythingWrongAtOnce(t *testing.T) {
	_, err := New(Options{Model: strings.Repeat("m", maxServedName+1), Dialect: "tgi", MaxModelLen: -1})
	for _, field := range []string{"Engine", "Model", "Dialect", "MaxModelLen"} {
		if err == nil || !strings.Contains(err.Error(), field+": ") {
			t.Errorf("%s is not reported: %v", field, err)
		}
	}
}
