package proxy

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestACallReadsModelAndStreamWithTheLastOfTwoMembers(t *testing.T) {
	for _, c := range []struct {
		body, model string
		stream      bool
	}{
		{`{"model":"a","stream":true}`, "a", true},
		{`{"model":"a","model":"b","stream":true,"stream":false}`, "b", false},
		{`{"mo\u0064el":"\u0061"}`, "a", false},
		{`{"model":null}`, "", false},
		{`{"stream":"true"}`, "", false},
		{`{"messages":[{"model":"inner","stream":true}]}`, "", false},
	} {
		got, fault := readCall([]byte(c.body), []string{"messages"}, nil)
		if fault != nil || got.model != c.model || got.stream != c.stream {
			t.Errorf("%s: got model %q stream %v fault %v", c.body, got.model, got.stream, fault)
		}
	}
}

func TestTheMoreExactPromptMemberCounts(t *testing.T) {
	ids, _ := readCall([]byte(`{"input_ids":[1,2]}`), []string{"input_ids", "text"}, nil)
	for _, body := range []string{`{"text":"x","input_ids":[1,2]}`, `{"input_ids":[1,2],"text":"x"}`} {
		if got, _ := readCall([]byte(body), []string{"input_ids", "text"}, nil); got.prompt != ids.prompt {
			t.Errorf("%s: got %+v, want that of the ids", body, got.prompt)
		}
	}
	text, _ := readCall([]byte(`{"text":"x"}`), []string{"input_ids", "text"}, nil)
	if got, _ := readCall([]byte(`{"input_ids":null,"text":"x"}`), []string{"input_ids", "text"}, nil); got.prompt != text.prompt {
		t.Error("a null member hides the other")
	}
}

// Case 13: the router judges only that the body is a JSON object with a readable model.
func TestOnlyUnreadableBodiesAreRefused(t *testing.T) {
	for _, body := range []string{
		`{"messages":[]}`, `{}`, `{"messages":[{"role":"assistant","content":null,"tool_calls":[]}]}`,
		`{"stop":["a","b","c","d","e"]}`, `{"stop":"x"}`, `{"stop":[1,2]}`, `{"stream":7}`, `{"prompt":{"a":1}}`,
	} {
		if _, fault := readCall([]byte(body), []string{"messages", "prompt"}, nil); fault != nil {
			t.Errorf("%s: refused: %v", body, fault)
		}
	}
	for body, says := range map[string]string{
		``: "empty", `{`: "byte 1", `[]`: "not an object", `"x"`: "not an object", `{"model":5}`: "string", `{"a":}`: "byte 5",
	} {
		_, fault := readCall([]byte(body), nil, nil)
		if fault == nil || fault.Code != CodeBadRequest || !strings.Contains(fault.Message, says) {
			t.Errorf("%q: got %v, want a bad_request that says %q", body, fault, says)
		}
	}
}

func TestEveryCodeHasAStatusAndAnOpenAIErrorObject(t *testing.T) {
	for code, status := range statusOf {
		w := httptest.NewRecorder()
		(&Error{Code: code, Message: "what <happened>", RetryAfterSeconds: 2}).write(w)
		var body struct {
			Error struct {
				Message, Type, Code string
				Param               *string
			}
		}
		if err := json.Unmarshal(w.Body.Bytes(), &body); err != nil {
			t.Fatalf("%s: %v", code, err)
		}
		if w.Code != status || body.Error.Code != string(code) || w.Header().Get("X-RouterFleet-Error-Code") != string(code) ||
			body.Error.Message != "what <happened>" || body.Error.Type == "" || body.Error.Param != nil || w.Header().Get("Retry-After") != "2" {
			t.Errorf("%s: got %d %v %s", code, w.Code, w.Header(), w.Body)
		}
	}
}

func TestRequestHeadersPassByAllowListOnly(t *testing.T) {
	client := http.Header{
		"Authorization": {"Bearer client"}, "Content-Type": {"application/json"}, "Traceparent": {"00-1"},
		"X-Request-Id": {"r1"}, "X-Request-Id-Parent": {"r0"}, "X-Sgl-Routing-Key": {"k"},
		"Cookie": {"secret"}, "X-Fleet-Mark": {"1"}, "X-Routerfleet-Token": {"admin"}, "X-Data-Parallel-Rank": {"3"},
		"Connection": {"close, X-Correlation-Id"}, "X-Correlation-Id": {"named in Connection"},
		"Te": {"trailers"}, "Upgrade": {"h2c"}, "Transfer-Encoding": {"chunked"}, "Keep-Alive": {"1"}, "Accept-Encoding": {"gzip"},
		"X-Forwarded-For": {"1.2.3.4"}, "Content-Length": {"5"}, "Expect": {"100-continue"}, "Proxy-Authorization": {"x"},
	}
	got := requestHeader(client, "")
	want := map[string]string{"Authorization": "Bearer client", "Content-Type": "application/json", "Traceparent": "00-1",
		"X-Request-Id": "r1", "X-Request-Id-Parent": "r0", "X-Sgl-Routing-Key": "k", "User-Agent": ""}
	for name := range got {
		if _, ok := want[name]; !ok {
			t.Errorf("%s passes", name)
		}
	}
	for name, value := range want {
		if got.Get(name) != value {
			t.Errorf("%s: got %q, want %q", name, got.Get(name), value)
		}
	}
	if keyed := requestHeader(client, "worker-key"); keyed.Get("Authorization") != "Bearer worker-key" || len(keyed["Authorization"]) != 1 {
		t.Errorf("with a worker key: Authorization %q", keyed["Authorization"])
	}
}

// Case 8: hop-by-hop headers of an answer, and those named in Connection, never pass.
func TestAnswerHeadersOfTheConnectionDoNotPass(t *testing.T) {
	got := http.Header{}
	copyAnswerHeader(got, http.Header{
		"Content-Type": {"application/json"}, "Content-Length": {"74"}, "Retry-After": {"1"}, "X-Engine": {"yes"},
		"Connection": {"keep-alive, x-secret", "x-other"}, "X-Secret": {"1"}, "X-Other": {"1"}, "Keep-Alive": {"timeout=5"},
		"Te": {"x"}, "Trailer": {"x"}, "Transfer-Encoding": {"chunked"}, "Upgrade": {"x"}, "Proxy-Authenticate": {"x"},
		"Location": {"http://10.0.0.1/"}, "X-Routerfleet-Error-Code": {"forged"},
	})
	want := []string{"Content-Type", "Content-Length", "Retry-After", "X-Engine"}
	for _, name := range want {
		if got.Get(name) == "" {
			t.Errorf("%s is missing", name)
		}
	}
	if len(got) != len(want) {
		t.Errorf("got %v, want only %v", got, want)
	}
}

func TestUnknownRoutesMethodsAndDisguisedPathsNeverReachAnEngine(t *testing.T) {
	for _, c := range []struct {
		method, target string
		code           Code
	}{
		{"POST", "/v1/chat/completions", ""}, {"PUT", "/generate", ""}, {"GET", "/v1/models", ""}, {"HEAD", "/healthz", ""},
		{"POST", "/v1/completions?x=..", ""},
		{"GET", "/v1/chat/completions", CodeMethodNotAllowed}, {"DELETE", "/v1/models", CodeMethodNotAllowed},
		{"POST", "/v1/embeddings", CodeNotFound}, {"POST", "/v1/load_lora_adapter", CodeNotFound}, {"GET", "/metrics", CodeNotFound},
		{"GET", "/internal/bootstrap", CodeNotFound}, {"POST", "/v1/chat/completions/", CodeNotFound},
		{"POST", "/v1/../generate", CodeBadRequest}, {"POST", "//generate", CodeBadRequest}, {"POST", "/v1%2fcompletions", CodeBadRequest},
		{"POST", "/v1%2Fcompletions", CodeBadRequest}, {"POST", "/%2e%2e/generate", CodeBadRequest}, {"POST", `/v1%5ccompletions`, CodeBadRequest},
	} {
		_, fault := findRoute(httptest.NewRequest(c.method, "http://router"+c.target, nil))
		if fault == nil && c.code != "" || fault != nil && fault.Code != c.code {
			t.Errorf("%s %s: got %v, want %q", c.method, c.target, fault, c.code)
		}
	}
}

func TestToolsCountInTheSizeOfAChatAndOfNothingElse(t *testing.T) {
	const tools = `"tools":[{"type":"function","function":{"name":"f","description":"` + "a description of forty letters and signs!" + `"}}]`
	size := func(member, body string) int {
		c, fault := readCall([]byte(body), []string{member}, nil)
		if fault != nil {
			t.Fatal(fault)
		}
		return c.prompt.tokens
	}
	const chat, text = `{"messages":[{"role":"user","content":"hi"}]`, `{"prompt":"hi"`
	if plain, more := size("messages", chat+`}`), size("messages", chat+`,`+tools+`}`); more < plain+10 {
		t.Errorf("a chat of %d tokens has %d with tools", plain, more)
	}
	if plain, more := size("prompt", text+`}`), size("prompt", text+`,`+tools+`}`); more != plain {
		t.Errorf("a text of %d tokens has %d with tools", plain, more)
	}
}
