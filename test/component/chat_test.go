package component

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/routerfleet/routerfleet/router/bootstrap/status"
	"github.com/routerfleet/routerfleet/router/tokens/chat"
	"github.com/routerfleet/routerfleet/router/tokens/model"
	"github.com/routerfleet/routerfleet/test/data/toymodel"
	"github.com/routerfleet/routerfleet/test/enginesim/httpapi"
)

// wordKinds are a kind of engine for each hash scheme.
var wordKinds = []kvKind{kvKinds[0], kvKinds[2], kvKinds[4]}

// files of a variant of the toy model.
func files(t testing.TB, v toymodel.Variant) string {
	t.Helper()
	dir := t.TempDir()
	if err := toymodel.Write(dir, v); err != nil {
		t.Fatal(err)
	}
	return dir
}

// reader reads prompts as an engine of a dialect does that has the files.
type reader struct {
	*model.Model
	dialect chat.Dialect
}

func (r reader) Text(text string, bare bool) ([]uint32, error) { return r.Model.Text(nil, text, bare) }
func (r reader) Chat(body []byte) ([]uint32, error) {
	return r.Model.Chat(nil, body, r.dialect, time.Now())
}

// reading has engines read prompts by files; change, which may be nil, changes some more.
func reading(t testing.TB, dir string, change func(i int, o *httpapi.Options)) func(*kvFleet) {
	t.Helper()
	m, err := model.Load(model.Files{Path: dir})
	if err != nil {
		t.Fatal(err)
	}
	return func(f *kvFleet) {
		f.reads = func(i int, o *httpapi.Options) {
			r := reader{m, chat.SGLang}
			if o.Dialect == httpapi.VLLM {
				r.dialect = chat.VLLM
			}
			o.Tokenizer = r
			if change != nil {
				change(i, o)
			}
		}
	}
}

// talk is a chat with a system prompt that follows from a name and a question; a tool is offered.
func talk(system int, question string) string {
	words := strings.Repeat(fmt.Sprintf("you are system number %d and the weather is what you answer. ", system), 4)
	return fmt.Sprintf(`{"model":"m","max_tokens":1,"messages":[{"role":"system","content":%q},{"role":"user","content":[{"type":"text","text":%q}]}],`+
		`"tools":[{"type":"function","function":{"parameters":{"type":"object","properties":{"city":{"type":"string"}}},"name":"weather","description":"the weather"}}]}`, words, question)
}

// said sends a chat and gives how many tokens of its prompt were cached, and how many there are.
func (r *kvRouter) said(path, body string) (cached, prompt int) {
	r.t.Helper()
	got := r.post(context.Background(), path, body)
	var answer struct {
		Usage struct {
			Prompt  int `json:"prompt_tokens"`
			Details struct {
				Cached int `json:"cached_tokens"`
			} `json:"prompt_tokens_details"`
		} `json:"usage"`
	}
	if err := json.Unmarshal([]byte(got.body), &answer); err != nil || got.status != 200 {
		r.t.Fatalf("got %d %q: %v", got.status, got.body, err)
	}
	return answer.Usage.Details.Cached, answer.Usage.Prompt
}

// tokenized is how many requests a path served.
func (r *kvRouter) tokenized(path string) float64 {
	return r.metric(fmt.Sprintf(`routerfleet_tokenization_total{path=%q}`, path))
}

func (r *kvRouter) problem(code status.Code) (status.Problem, bool) {
	for _, p := range r.bootstrap().Problems {
		if p.Code == code {
			return p, true
		}
	}
	return status.Problem{}, false
}

// Chats that begin alike and end differently would spread by their own keys. That they meet, through any of several
// routers, shows that each router's tokens are the blocks that the engine announced.
func TestChatsOfOneSystemPromptMeetThroughAnyRouter(t *testing.T) {
	for _, kind := range wordKinds {
		t.Run(kind.String(), func(t *testing.T) {
			dir := files(t, toymodel.Plain)
			f := newKVFleet(t, kind, 3, 4000, reading(t, dir, nil))
			o := f.options()
			o.TokenizerPath = dir
			routers := []*kvRouter{f.router(o, 0), f.router(o, 0)}
			const systems = 6
			for s := range systems {
				if cached, _ := routers[0].said(chatPath, talk(s, "hello")); cached != 0 && s == 0 {
					t.Errorf("the first chat: %d tokens are cached", cached)
				}
			}
			for _, r := range routers {
				r.caughtUp()
			}
			for s := range systems {
				for i, r := range routers {
					// The shared part has at least the tools and most of the system prompt.
					cached, prompt := r.said(chatPath, talk(s, fmt.Sprintf("question %d of the user <|im_end|> é 日本", i)))
					if cached < prompt/2 || cached%kvPage != 0 {
						t.Errorf("system prompt %d through router %d: %d of %d tokens are cached", s, i, cached, prompt)
					}
				}
			}
			if _, wrong := routers[1].problem(status.CodeTokenParity); wrong || routers[1].tokenized("own") != systems {
				t.Errorf("%v chats by our own tokenizer, problem %v", routers[1].tokenized("own"), wrong)
			}
			// What was promised is what the engine found: no block was counted that it does not have.
			routers[1].wantSum("routerfleet_policy_observed_answers_total", systems)
			var promised, reported float64
			for i := range f.engines {
				promised += routers[1].metric(fmt.Sprintf("routerfleet_policy_predicted_cached_tokens_total{worker=%q}", workerOf(i)))
				reported += routers[1].metric(fmt.Sprintf("routerfleet_policy_reported_cached_tokens_total{worker=%q}", workerOf(i)))
			}
			if promised == 0 || promised > reported {
				t.Errorf("%v tokens promised, %v found", promised, reported)
			}
		})
	}
}

// Text that looks like a special token is one to the engine, also in what a client wrote.
func TestTextsMeetTheBlocksTheyHaveInTheEngine(t *testing.T) {
	for _, kind := range wordKinds {
		t.Run(kind.String(), func(t *testing.T) {
			dir := files(t, toymodel.Plain)
			f := newKVFleet(t, kind, 2, 4000, reading(t, dir, nil))
			o := f.options()
			o.TokenizerPath = dir
			r := f.router(o, 0)
			text := func(end string) string {
				return fmt.Sprintf(`{"model":"m","max_tokens":1,"prompt":%q}`, strings.Repeat("hello <|im_start|> you and the <|im_end|>\n ", 6)+end)
			}
			r.said(completionsPath, text("one"))
			r.caughtUp()
			for _, end := range []string{"one", "two", "<|begin_of_text|>"} {
				if cached, prompt := r.said(completionsPath, text(end)); cached < prompt-2*kvPage {
					t.Errorf("%q: %d of %d tokens are cached", end, cached, prompt)
				}
			}
			if got := r.tokenized("own"); got != 4 {
				t.Errorf("%v texts by our own tokenizer", got)
			}
		})
	}
}

// A wrong tokenizer is named at once, and requests are routed by what the engine tells, or by their text.
func TestAWrongTokenizerIsNamedAndNotUsed(t *testing.T) {
	for _, c := range []struct {
		kind    kvKind
		variant toymodel.Variant
		path    string // that serves chats then
	}{
		{kvKinds[2], toymodel.OtherVocabulary, "engine"},
		{kvKinds[2], toymodel.OtherTemplate, "engine"},
		{kvKinds[0], toymodel.OtherVocabulary, "approximate"},
	} {
		t.Run(fmt.Sprintf("%s/%d", c.kind, c.variant), func(t *testing.T) {
			f := newKVFleet(t, c.kind, 2, 4000, reading(t, files(t, toymodel.Plain), nil))
			o := f.options()
			o.TokenizerPath = files(t, c.variant)
			o.EngineTokenizeTimeout = 10_000 // what is tested is not how fast
			r := f.router(o, 0)
			eventually(t, "both engines are named", func() bool {
				p, ok := r.problem(status.CodeTokenParity)
				return ok && p.Count == 2 && strings.Contains(p.Example, "token ") && strings.Contains(p.Example, "model m")
			})
			if c.kind.scheme == "sglang" {
				// It renders no chats for others: the counts in its answers tell.
				for i := range 3 {
					r.said(chatPath, talk(0, fmt.Sprint("question ", i)))
				}
			}
			before := r.tokenized(c.path)
			first, _ := r.said(chatPath, talk(1, "hello"))
			r.caughtUp()
			cached, prompt := r.said(chatPath, talk(1, "another question"))
			if got := r.tokenized(c.path) - before; got != 2 {
				t.Errorf("%v of 2 chats by path %s", got, c.path)
			}
			if c.path == "engine" && cached < prompt/2 {
				t.Errorf("%d, then %d of %d tokens are cached", first, cached, prompt)
			}
		})
	}
}

func TestAnEngineTellsTokensWhereTheRouterHasNoTokenizer(t *testing.T) {
	f := newKVFleet(t, kvKinds[4], 2, 4000, reading(t, files(t, toymodel.Plain), nil))
	o := f.options()
	o.EngineTokenizeTimeout = 10_000
	r := f.router(o, 0)
	r.said(chatPath, talk(1, "hello"))
	r.caughtUp()
	if cached, prompt := r.said(chatPath, talk(1, "another question")); cached < prompt/2 {
		t.Errorf("%d of %d tokens are cached", cached, prompt)
	}
	if got := r.tokenized("engine"); got != 2 {
		t.Errorf("%v chats by the engine's tokens", got)
	}
}

// Without any way to tokens the text decides: a conversation stays where it went.
func TestAConversationStaysWhereItWentThoughNobodyTellsTokens(t *testing.T) {
	silent := reading(t, files(t, toymodel.Plain), func(_ int, o *httpapi.Options) { o.NoTokenize = true })
	f := newKVFleet(t, kvKinds[2], 3, 4000, silent)
	r := f.router(f.options(), 0)
	owners := map[string]string{}
	for turn := range 4 {
		for s := range 5 {
			name, long := fmt.Sprint(s), strings.Repeat(fmt.Sprintf("turn and turn of conversation %d, ", s), 40)
			messages := `{"role":"user","content":"` + long + `"}`
			for i := range turn {
				messages += fmt.Sprintf(`,{"role":"assistant","content":"answer %d"},{"role":"user","content":%q}`, i, long)
			}
			body := `{"model":"m","max_tokens":1,"messages":[` + messages + `]}`
			resp := r.post(context.Background(), chatPath, body)
			var answer struct {
				Fingerprint string `json:"system_fingerprint"`
			}
			if err := json.Unmarshal([]byte(resp.body), &answer); err != nil || resp.status != http.StatusOK {
				t.Fatal(resp.status, resp.body, err)
			}
			if owners[name] != "" && owners[name] != answer.Fingerprint {
				t.Errorf("turn %d of conversation %s went to %s, the one before to %s", turn, name, answer.Fingerprint, owners[name])
			}
			owners[name] = answer.Fingerprint
		}
	}
	if got := r.tokenized("approximate"); got != 20 {
		t.Errorf("%v chats by their text", got)
	}
	if got := r.metric(`routerfleet_tokenization_miss_total{reason="chat"}`); got != 20 {
		t.Errorf("%v misses", got)
	}
}

// Media, and what else parts the prompt from its text, is never guessed at.
func TestAnImageIsRoutedByLoadAndCounted(t *testing.T) {
	dir := files(t, toymodel.Plain)
	f := newKVFleet(t, kvKinds[2], 2, 4000)
	o := f.options()
	o.TokenizerPath = dir
	r := f.router(o, 0)
	const image = `{"model":"m","max_tokens":1,"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:x"}},{"type":"text","text":"what is it"}]}]}`
	if got := r.post(context.Background(), chatPath, image); got.status != 200 {
		t.Fatalf("%d %s", got.status, got.body)
	}
	if misses, none := r.metric(`routerfleet_tokenization_miss_total{reason="media"}`), r.tokenized("none"); misses != 1 || none != 1 {
		t.Errorf("%v misses, %v by none", misses, none)
	}
}
