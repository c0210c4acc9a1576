package httpapi

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/routerfleet/routerfleet/test/enginesim"
)

func TestBadRequestsAreOpenAIErrors(t *testing.T) {
	const chat, text = "/v1/chat/completions", "/v1/completions"
	user := func(rest string) string { return `{"messages":[{"role":"user","content":"x"}]` + rest + `}` }
	bubble(t, enginesim.Options{DPSize: 2}, Options{MaxModelLen: 100}, func(f *fixture) {
		for _, c := range []struct {
			path, body string
			param      string
			status     int
		}{
			{chat, `{"messages":[]}`, "messages", 400},
			{chat, `{}`, "messages", 400},
			{chat, `{"messages":"hello"}`, "messages", 400},
			{chat, `{"messages":[{"content":"x"}]}`, "messages", 400},
			{chat, `{"messages":[{"role":"king","content":"x"}]}`, "messages", 400},
			{chat, `{"messages":[{"role":"user"}]}`, "messages", 400},
			{chat, `{"messages":[{"role":"user","content":7}]}`, "messages", 400},
			{chat, user(`,"stop":["a","b","c","d","e"]`), "stop", 400},
			{chat, user(`,"stop":[1,2]`), "stop", 400},
			{chat, user(`,"stop":""`), "stop", 400},
			{chat, user(`,"n":0`), "n", 400},
			{chat, user(`,"n":129`), "n", 400},
			{chat, user(`,"max_tokens":0`), "max_tokens", 400},
			{chat, user(`,"max_tokens":"many"`), "max_tokens", 400},
			{chat, user(`,"max_tokens":1.5`), "max_tokens", 400},
			{chat, user(`,"max_completion_tokens":-1`), "max_completion_tokens", 400},
			{chat, user(`,"max_tokens":99`), "max_tokens", 400},
			{chat, user(`,"temperature":2.1`), "temperature", 400},
			{chat, user(`,"top_p":0`), "top_p", 400},
			{chat, user(`,"stream_options":{"include_usage":true}`), "stream_options", 400},
			{chat, user(`,"model":"other"`), "model", 404},
			{chat, `[]`, "", 400},
			{chat, `{"messages":`, "", 400},
			{chat, ``, "", 400},
			{text, `{}`, "prompt", 400},
			{text, `{"prompt":null}`, "prompt", 400},
			{text, `{"prompt":""}`, "prompt", 400},
			{text, `{"prompt":[]}`, "prompt", 400},
			{text, `{"prompt":[[1],[]]}`, "prompt", 400},
			{text, `{"prompt":[1,"a"]}`, "prompt", 400},
			{text, `{"prompt":[-1]}`, "prompt", 400},
			{text, `{"prompt":[1.5]}`, "prompt", 400},
			{text, `{"prompt":[262144]}`, "prompt", 400},
			{text, `{"prompt":[99999999999999999999]}`, "prompt", 400},
			{text, `{"prompt":{"a":1}}`, "prompt", 400},
			{text, `{"prompt":"x","n":128,"stop":[]}`, "", 200},
			{text, `{"prompt":["x","y","z"],"n":128}`, "n", 400},
			{"/generate", `{"text":"a","input_ids":[1]}`, "input_ids", 400},
			{"/generate", `{}`, "text", 400},
			{"/tokenize", `{}`, "prompt", 400},
			{"/tokenize", `{"messages":[]}`, "messages", 400},
		} {
			got := f.post(c.path, c.body)
			var body errorBody
			if err := json.Unmarshal([]byte(got.body), &body); err != nil {
				t.Errorf("%s %s: %d %s is no JSON", c.path, c.body, got.status, got.body)
				continue
			}
			param := ""
			if body.Error.Param != nil {
				param = *body.Error.Param
			}
			if got.status != c.status || param != c.param {
				t.Errorf("%s %s: got %d about %q (%s), want %d about %q", c.path, c.body, got.status, param, body.Error.Message, c.status, c.param)
			}
			if got.status != 200 && (body.Error.Message == "" || body.Error.Type == "" || body.Error.Code != got.status) {
				t.Errorf("%s %s: incomplete error object %s", c.path, c.body, got.body)
			}
		}
		if st := f.state(); st.Outcomes[OutcomeRefused] != 38 || st.Totals.Requests != 128 {
			t.Errorf("refused %d, reached the engine %d; want 38 and the 128 choices of one request", st.Outcomes[OutcomeRefused], st.Totals.Requests)
		}
	})
}

func TestOddButValidChatsAreAnswered(t *testing.T) {
	bubble(t, enginesim.Options{}, Options{}, func(f *fixture) {
		for _, messages := range []string{
			`{"role":"assistant","content":null,"tool_calls":[{"id":"1"}]}`,
			`{"role":"tool","content":"42","tool_call_id":"1"}`,
			`{"role":"user","content":[{"type":"text","text":"a"},{"type":"image_url","image_url":{"url":"x"}}]}`,
			`{"role":"user","content":"\ud83d lone surrogate"}`,
			`{"role":"user","content":""}`,
		} {
			if got := f.post("/v1/chat/completions", `{"messages":[`+messages+`],"stop":null,"n":null,"max_tokens":null}`); got.status != 200 {
				t.Errorf("%s: %d %s", messages, got.status, got.body)
			}
		}
	})
}

func TestABodyPastTheLimitIs413(t *testing.T) {
	bubble(t, enginesim.Options{}, Options{}, func(f *fixture) {
		got := f.post("/v1/completions", `{"prompt":"`+strings.Repeat("x", maxBodyBytes)+`"}`)
		if got.status != 413 || !strings.Contains(got.body, "PayloadTooLargeError") {
			t.Errorf("got %d %s", got.status, got.body)
		}
	})
}

func TestAFullQueueIsBackPressure(t *testing.T) {
	bubble(t, enginesim.Options{MaxRunning: 1, MaxQueued: 1, TokenInterval: time.Second}, Options{}, func(f *fixture) {
		got := decode[errorBody](t, func() answered {
			a := f.post("/v1/completions", `{"prompt":["a","b","c"]}`)
			if a.status != 503 || a.header.Get("Retry-After") != "1" {
				t.Errorf("got %d, Retry-After %q; want 503 and 1", a.status, a.header.Get("Retry-After"))
			}
			a.status = 200 // for decode
			return a
		}())
		if got.Error.Type != "ServiceUnavailableError" {
			t.Errorf("type %q", got.Error.Type)
		}
		if st := f.state(); st.Running != 0 || st.Queued != 0 {
			t.Errorf("the refused request left running %d queued %d", st.Running, st.Queued)
		}
	})
}

func TestTheAPIKeyGuardsWhatClientsUse(t *testing.T) {
	bubble(t, enginesim.Options{}, Options{APIKey: "secret"}, func(f *fixture) {
		for path, want := range map[string]int{"/v1/models": 401, "/server_info": 401, "/health": 200, "/control/state": 200} {
			if got := f.do(http.MethodGet, path, ""); got.status != want {
				t.Errorf("%s without key: got %d, want %d", path, got.status, want)
			}
		}
		if got := f.do(http.MethodGet, "/v1/models", "", "Authorization", "Bearer secret"); got.status != 200 {
			t.Errorf("with key: got %d", got.status)
		}
	})
}
