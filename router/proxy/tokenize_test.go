package proxy

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/routerfleet/routerfleet/router/policy"
	"github.com/routerfleet/routerfleet/router/tokens"
	"github.com/routerfleet/routerfleet/router/tokens/chain"
	"github.com/routerfleet/routerfleet/router/tokens/chat"
	tokenizer "github.com/routerfleet/routerfleet/router/tokens/model"
	"github.com/routerfleet/routerfleet/router/tokens/parity"
	"github.com/routerfleet/routerfleet/router/tokens/remote"
	"github.com/routerfleet/routerfleet/router/workers"
	"github.com/routerfleet/routerfleet/router/workers/workerstest"
	"github.com/routerfleet/routerfleet/test/data/toymodel"
)

func toy(tb testing.TB) *tokenizer.Model {
	tb.Helper()
	dir := tb.TempDir()
	if err := toymodel.Write(dir, toymodel.Plain); err != nil {
		tb.Fatal(err)
	}
	m, err := tokenizer.Load(tokenizer.Files{Path: dir})
	if err != nil {
		tb.Fatal(err)
	}
	return m
}

// teller answers every question with some tokens, or with an error. It keeps what it heard of them.
type teller struct {
	ids    []uint32
	err    error
	asked  []remote.Prompt
	whom   []string
	right  int
	wrongs []remote.Prompt
}

func (t *teller) Heard(_ chat.Dialect, p remote.Prompt, told []uint32, right bool) {
	switch {
	case !slices.Equal(told, t.ids):
		t.wrongs = append(t.wrongs, remote.Prompt{Model: "what was not told"})
	case right:
		t.right++
	default:
		t.wrongs = append(t.wrongs, p)
	}
}

func (t *teller) Tokens(_ context.Context, e remote.Engine, p remote.Prompt) ([]uint32, error) {
	t.asked, t.whom = append(t.asked, p), append(t.whom, e.ID)
	return t.ids, t.err
}

func (t *teller) Fresh(context.Context, remote.Engine, remote.Prompt) ([]uint32, error) {
	return nil, errors.New("not asked here")
}

// wording is a key maker beside a worker that serves base and an adapter of it, with engines of both dialects.
func wording(tb testing.TB, ways *chain.Chain, watch *parity.Watch) (*keyMaker, *prometheus.Registry) {
	tb.Helper()
	registry := prometheus.NewRegistry()
	m, err := newMetrics(registry)
	if err != nil {
		tb.Fatal(err)
	}
	listed := workerstest.Registry(tb, workerstest.Worker{ID: "a", URL: "http://a:1", Models: []string{"base"}})
	engine := func(id string, d chat.Dialect) parity.Engine {
		return parity.Engine{Engine: remote.Engine{ID: id, Dialect: d}, Worker: id, Model: "base"}
	}
	k := newKeyMaker(KeyOptions{
		Wanted: func() bool { return true }, Seed: keySeed, HashSeed: "42", Chain: ways, Parity: watch,
		Readers: func(name string) []Reader {
			if name != "base" {
				return nil
			}
			return []Reader{
				{Dialect: chat.VLLM, Engines: []parity.Engine{engine("v", chat.VLLM)}},
				{Dialect: chat.SGLang, Engines: []parity.Engine{engine("s", chat.SGLang)}},
			}
		},
	}, listed, m)
	k.models = func() []workers.Model { return []workers.Model{{ID: "base"}, {ID: "tuned", Parent: "base"}} }
	return k, registry
}

func ownOnly(m chain.OwnWay) *chain.Chain {
	return &chain.Chain{Models: func(string) chain.OwnWay { return m }}
}

var today = time.Date(2026, 3, 4, 0, 0, 0, 0, time.UTC)

func readBy(tb testing.TB, k *keyMaker, path, body string) *promptKeys {
	tb.Helper()
	p := sourceOf(tb, k, path, body)
	p.read(tb.Context(), today)
	return p
}

func pathsOf(t *testing.T, r *prometheus.Registry) map[string]float64 {
	t.Helper()
	counts := map[string]float64{}
	for series, value := range gather(t, r) {
		if name, ok := strings.CutPrefix(series, `routerfleet_tokenization_total{path="`); ok {
			counts[strings.TrimSuffix(name, `"}`)] = value
		}
	}
	return counts
}

func TestWordsHaveTheKeysOfTheirTokensInEverySpace(t *testing.T) {
	m := toy(t)
	k, registry := wording(t, ownOnly(m), nil)
	const words = "hello you and the weather, what is the answer to the question"
	talk := `{"model":"base","messages":[{"role":"system","content":"you are the system"},{"role":"user","content":"` + words + `"}],"tools":[{"type":"function","function":{"name":"f","parameters":{"b":1,"a":2}}}]}`
	text := func(bare bool) []uint32 {
		ids, err := m.Text(nil, words, bare)
		if err != nil {
			t.Fatal(err)
		}
		return ids
	}
	spoken := func(d chat.Dialect) []uint32 {
		ids, err := m.Chat(nil, []byte(talk), d, today)
		if err != nil {
			t.Fatal(err)
		}
		return ids
	}
	for _, c := range []struct {
		path, body   string
		vllm, sglang []uint32
	}{
		{"/v1/completions", `{"model":"base","prompt":"` + words + `"}`, text(false), text(false)},
		{"/v1/completions", `{"model":"base","prompt":["` + words + `"]}`, text(false), text(false)},
		{"/v1/completions", `{"prompt":"` + words + `","add_special_tokens":false}`, text(true), text(false)},
		{"/generate", `{"text":"` + words + `"}`, text(false), text(false)},
		{"/v1/chat/completions", talk, spoken(chat.VLLM), spoken(chat.SGLang)},
	} {
		p := readBy(t, k, c.path, c.body)
		for _, space := range keySpacesOfTest {
			ids := c.vllm
			if dialectOf(space.Scheme) == chat.SGLang {
				ids = c.sglang
			}
			want := keysOf(t, space, tokens.Context{}, ids...)
			if got := p.Keys(space); len(got) == 0 || !slices.Equal(got, want) {
				t.Errorf("%s in %+v: %d keys, want %d of %d tokens", c.body, space, len(got), len(want), len(ids))
			}
		}
		if p.miss != missNone || p.tokens != len(c.vllm) || p.path != pathOwn {
			t.Errorf("%s: miss %s, %d tokens by %s", c.body, p.miss, p.tokens, p.path)
		}
		if keys, _ := p.Approximate(); keys != nil {
			t.Errorf("%s has keys and is guessed at", c.body)
		}
		p.release()
		p.call.ids.free()
	}
	if got := pathsOf(t, registry); got[pathOwn] != 5 {
		t.Errorf("%v", got)
	}
}

func TestWhatNobodyCanTokenizeIsCountedByItsReason(t *testing.T) {
	own := ownOnly(toy(t))
	distrusted := ownOnly(toy(t))
	distrusted.Trusted = func(parity.Group) bool { return false }
	late := &chain.Chain{Asker: &teller{err: context.DeadlineExceeded}}
	const talk = `{"messages":[{"role":"user","content":"hi"}]}`
	for _, c := range []struct {
		name       string
		ways       *chain.Chain
		path, body string
		reason     missReason
		by         string
	}{
		{"no tokenizer", &chain.Chain{}, "/v1/completions", `{"prompt":"text"}`, missText, pathApproximate},
		{"no tokenizer", &chain.Chain{}, "/v1/chat/completions", talk, missChat, pathApproximate},
		{"a wrong one", distrusted, "/v1/chat/completions", talk, missParity, pathApproximate},
		{"a late engine", late, "/v1/completions", `{"prompt":"text"}`, missEngine, pathApproximate},
		{"an image", own, "/v1/chat/completions", `{"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:x"}}]}]}`, missMedia, pathNone},
		{"a template of its own", own, "/v1/chat/completions", `{"messages":[{"role":"user","content":"hi"}],"chat_template":"x"}`, missOptions, pathNone},
		{"no messages", own, "/v1/chat/completions", `{"model":"base"}`, missUnreadable, pathNone},
		{"half a character", own, "/v1/completions", `{"prompt":"\ud800"}`, missUnreadable, pathNone},
		{"two prompts", own, "/v1/completions", `{"prompt":["a","b"]}`, missBatch, pathNone},
		{"a suffix", own, "/v1/completions", `{"prompt":"a","suffix":"b"}`, missOptions, pathNone},
		{"embeddings", own, "/v1/completions", `{"prompt":"a","prompt_embeds":"x"}`, missMedia, pathNone},
		{"a word without end", own, "/v1/completions", `{"prompt":"` + strings.Repeat("a", 70<<10) + `"}`, missTooLong, pathApproximate},
	} {
		k, registry := wording(t, c.ways, nil)
		p := readBy(t, k, c.path, c.body)
		for _, space := range keySpacesOfTest {
			if got := p.Keys(space); len(got) != 0 {
				t.Errorf("%s in %+v: %d keys", c.name, space, len(got))
			}
		}
		if p.miss != c.reason || p.path != c.by {
			t.Errorf("%s: %s by %s, want %s by %s", c.name, p.miss, p.path, c.reason, c.by)
		}
		if got := pathsOf(t, registry); got[c.by] != 1 || len(got) != 1 {
			t.Errorf("%s: %v", c.name, got)
		}
		if got := counted(t, k, c.reason); got != 1 {
			t.Errorf("%s: counted %v times", c.name, got)
		}
	}
}

func TestAnEngineTellsWhatTheRouterCannot(t *testing.T) {
	engine := &teller{ids: []uint32{1, 2, 3, 4, 5, 6, 7, 8}}
	k, _ := wording(t, &chain.Chain{Asker: engine}, nil)
	body := `{"model":"base","messages":[{"role":"user","content":"hi"}]}`
	p := readBy(t, k, "/v1/chat/completions", body)
	for _, space := range keySpacesOfTest {
		if got := p.Keys(space); !slices.Equal(got, keysOf(t, space, tokens.Context{}, engine.ids...)) {
			t.Errorf("%+v: %x", space, got)
		}
	}
	if p.path != pathEngine || p.tokens != len(engine.ids) {
		t.Errorf("%d tokens by %s", p.tokens, p.path)
	}
	if len(engine.asked) != dialects || !bytes.Equal(engine.asked[0].Chat, []byte(body)) || engine.asked[0].Model != "base" {
		t.Errorf("asked %+v", engine.asked)
	}
	engine.ids[0] = 9 // what an engine told is not the request's to change, nor the other way round
	if got := p.readings[chat.VLLM].ids.list[0]; got != 1 {
		t.Errorf("the request shares the answer's memory: %d", got)
	}
}

func TestAnAdapterIsKeyedWhereItsSchemeTellsAdaptersApart(t *testing.T) {
	k, _ := wording(t, ownOnly(toy(t)), nil)
	p := readBy(t, k, "/v1/completions", `{"model":"tuned","prompt":"hello you and the weather"}`)
	for _, space := range keySpacesOfTest {
		got := p.Keys(space)
		if sglang := dialectOf(space.Scheme) == chat.SGLang; sglang != (len(got) == 0) {
			t.Errorf("%+v: %d keys", space, len(got))
		}
	}
	if p.miss != missLoRA {
		t.Errorf("miss %s", p.miss)
	}
}

// shouting fails the test when it is asked.
type shouting struct{ t *testing.T }

func (s shouting) Text(dst []uint32, _ string, _ bool) ([]uint32, error) {
	s.t.Error("a text was tokenized")
	return dst, nil
}
func (s shouting) Chat(dst []uint32, _ []byte, _ chat.Dialect, _ time.Time) ([]uint32, error) {
	s.t.Error("a chat was tokenized")
	return dst, nil
}
func (s shouting) Chats() bool { return true }
func (s shouting) Render([]byte, chat.Dialect, time.Time) (string, bool, error) {
	s.t.Error("a chat was rendered")
	return "", false, nil
}

func TestNothingIsTokenizedThatNoIndexCouldUse(t *testing.T) {
	k, registry := wording(t, ownOnly(shouting{t}), nil)
	const talk = `{"model":%q,"messages":[{"role":"user","content":"hi"}]%s}`
	for _, body := range []string{
		fmt.Sprintf(talk, "unknown", ""),              // nobody serves it
		fmt.Sprintf(talk, "base", `,"echo":true`),     // whatever the tokens are
		fmt.Sprintf(talk, "base", `,"lora_path":"x"`), // the same
	} {
		readBy(t, k, "/v1/chat/completions", body)
	}
	k.opts.Wanted = func() bool { return false }
	readBy(t, k, "/v1/chat/completions", fmt.Sprintf(talk, "base", ""))
	if got := pathsOf(t, registry); got[pathNone] != 2 || len(got) != 1 {
		t.Errorf("%v", got)
	}
}

func TestGuessesShareKeysAsFarAsTextsShareChunks(t *testing.T) {
	k, _ := wording(t, &chain.Chain{}, nil)
	approximate := func(body string) []tokens.Key {
		keys, size := readBy(t, k, "/v1/chat/completions", body).Approximate()
		if size != chunkTokens {
			t.Errorf("chunks of %d tokens", size)
		}
		return keys
	}
	shared := strings.Repeat("x", 2*chunkBytes)
	turn := `{"messages":[{"role":"user","content":"` + shared + `"}`
	first := approximate(turn + `]}`)
	next := approximate(turn + `,{"role":"assistant","content":"` + shared + `"}]}`)
	if len(first) < 2 || len(next) <= len(first) || !slices.Equal(next[:len(first)], first) {
		t.Errorf("%d chunks, then %d", len(first), len(next))
	}
	for _, other := range []string{
		turn + `],"model":"base"}`, turn + `],"cache_salt":"s"}`, turn + `],"tools":[{"type":"function","function":{"name":"f"}}]}`,
	} {
		if keys := approximate(other); len(keys) != len(first) || slices.Contains(first, keys[0]) {
			t.Errorf("%.40s... shares a key with another prompt", other)
		}
	}
	if keys := approximate(`{"messages":[{"role":"user","content":"short"}]}`); len(keys) != 0 {
		t.Errorf("%d chunks of a short text", len(keys))
	}
	long := approximate(`{"messages":[{"role":"user","content":"` + strings.Repeat("x", 2*maxChunks*chunkBytes) + `"}]}`)
	if len(long) != maxChunks {
		t.Errorf("%d chunks", len(long))
	}
}

func TestAnswersAreHeldAgainstTheRoutersTokens(t *testing.T) {
	watch, err := parity.New(parity.Options{Encoder: func(string) parity.Encoder { return nil }, Engines: func() []parity.Engine { return nil }, Asker: &teller{}})
	if err != nil {
		t.Fatal(err)
	}
	ways := ownOnly(toy(t))
	ways.Trusted = watch.Book().Trusted
	k, _ := wording(t, ways, watch)
	const talk = `{"model":"base","messages":[{"role":"user","content":"hello"}]}`
	group := parity.Group{Model: "base", Dialect: chat.SGLang, Kind: parity.Chat}
	answer := func(told []uint32, count int) {
		p := readBy(t, k, "/v1/chat/completions", talk)
		var ids *tokenIDs
		if told != nil {
			ids = &tokenIDs{list: told}
		}
		p.compare("s", Usage{Known: true, Prompt: count}, ids)
		p.compare("gone", Usage{Known: true, Prompt: 1}, nil) // an engine that is not followed says nothing
	}
	right := len(readBy(t, k, "/v1/chat/completions", talk).readings[chat.SGLang].ids.list)
	for range 3 {
		answer(nil, right+1)
	}
	if watch.Book().Trusted(group) || !watch.Book().Trusted(parity.Group{Model: "base", Kind: parity.Chat}) {
		t.Fatal("counts that differ were not heard, or of the wrong engine")
	}
	if p := readBy(t, k, "/v1/chat/completions", talk); p.readings[chat.SGLang].path != chain.None || p.readings[chat.VLLM].path != chain.Own {
		t.Error("what is known to differ is used")
	}
	// The files are compared on, though they are not used: that is how it shows that the engine was put right.
	for range 8 {
		answer(nil, right)
	}
	if !watch.Book().Trusted(group) {
		t.Error("counts that agree again were not heard")
	}
	answer([]uint32{1, 2, 3}, right)
	if watch.Book().Trusted(group) {
		t.Error("tokens in the answer were not heard")
	}
}

func TestWhatAnEngineToldIsHeldAgainstTheAnswer(t *testing.T) {
	const body = `{"model":"base","prompt":"hello"}`
	for _, c := range []struct {
		name  string
		rank  string
		usage Usage
		told  *tokenIDs
		right int
		wrong int
	}{
		{"as many", "v", Usage{Known: true, Prompt: 8}, nil, 1, 0},
		{"one more", "v", Usage{Known: true, Prompt: 9}, nil, 0, 1},
		{"other tokens", "v", Usage{Known: true, Prompt: 8}, &tokenIDs{list: make([]uint32, 8)}, 0, 1},
		{"no tokens", "v", Usage{Known: true, Prompt: 8}, &tokenIDs{bad: true}, 1, 0},
		{"no usage", "v", Usage{Prompt: 9}, nil, 0, 0},
		{"an engine that is not followed", "gone", Usage{Known: true, Prompt: 9}, nil, 0, 0},
	} {
		engine := &teller{ids: []uint32{1, 2, 3, 4, 5, 6, 7, 8}}
		k, _ := wording(t, &chain.Chain{Asker: engine}, nil)
		readBy(t, k, "/v1/completions", body).compare(c.rank, c.usage, c.told)
		if engine.right != c.right || len(engine.wrongs) != c.wrong {
			t.Errorf("%s: right %d times, wrong %+v", c.name, engine.right, engine.wrongs)
		}
		if c.wrong > 0 && (engine.wrongs[0].Text != "hello" || engine.wrongs[0].Model != "base") {
			t.Errorf("%s: wrong of %+v", c.name, engine.wrongs[0])
		}
	}
}

func TestOnlyEnginesWithTheAdapterAreAskedForItsPrompts(t *testing.T) {
	engine := &teller{ids: []uint32{1, 2, 3, 4, 5, 6, 7, 8}}
	k, _ := wording(t, &chain.Chain{Asker: engine}, nil)
	listed := workerstest.Registry(t,
		workerstest.Worker{ID: "a", URL: "http://a:1", Models: []string{"base"}},
		workerstest.Worker{ID: "b", URL: "http://b:1", Models: []string{"base", "tuned"}, DPSize: 2},
		workerstest.Worker{ID: "c", URL: "http://c:1", Models: []string{"base"}},
		workerstest.Worker{ID: "d", URL: "http://d:1", Models: []string{"tuned"}, NotReady: true},
	)
	k.serving = newKeyMaker(k.opts, listed, k.metrics).serving
	var all []parity.Engine
	for _, id := range []string{"a", "b", "c", "d"} {
		all = append(all, parity.Engine{Engine: remote.Engine{ID: id}, Worker: id, Model: "base"})
	}
	engines := all
	k.opts.Readers = func(string) []Reader { return []Reader{{Dialect: chat.VLLM, Engines: engines}} }
	asked := func(model string) map[string]bool {
		engine.asked, engine.whom = nil, nil
		for i := range 32 {
			readBy(t, k, "/v1/completions", fmt.Sprintf(`{"model":%q,"prompt":"%d hello"}`, model, i))
		}
		whom := map[string]bool{}
		for i, id := range engine.whom {
			if whom[id] = true; engine.asked[i].Model != model {
				t.Errorf("%s was asked for %q, want %q", id, engine.asked[i].Model, model)
			}
		}
		return whom
	}
	if got := asked("base"); len(got) != len(all) {
		t.Errorf("asked %v for the base model, want each of %d", got, len(all))
	}
	if got := asked("tuned"); len(got) != 1 || !got["b"] || len(engine.whom) != 32 {
		t.Errorf("asked %v %d times for the adapter, want b alone", got, len(engine.whom))
	}
	engines = all[:1]
	if got := asked("tuned"); len(got) != 0 {
		t.Errorf("asked %v, none of which has the adapter", got)
	}
}

// answers is a transport of engines that tell eight tokens of everything.
type answers struct{ asked int }

func (a *answers) RoundTrip(*http.Request) (*http.Response, error) {
	a.asked++
	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader(`{"tokens":[1,2,3,4,5,6,7,8],"count":8}`))}, nil
}

func TestATellerThatLiesIsAskedAgainAndThenNoMore(t *testing.T) {
	engine := &answers{}
	client, err := remote.New(remote.Options{Transport: engine, Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	k, _ := wording(t, &chain.Chain{Asker: client}, nil)
	vllm := k.opts.Readers("base")[:1]
	k.opts.Readers = func(string) []Reader { return vllm }
	answer := func(prompt string, counted int) *promptKeys {
		p := readBy(t, k, "/v1/completions", `{"model":"base","prompt":"`+prompt+`"}`)
		p.compare("v", Usage{Known: true, Prompt: counted}, nil)
		return p
	}
	answer("hello", 8)
	answer("hello", 9)
	if engine.asked != 1 {
		t.Fatalf("asked %d times for what is kept", engine.asked)
	}
	for range 31 {
		answer("hello", 9)
	}
	if engine.asked != 32 {
		t.Fatalf("asked %d times, want once for each wrong answer", engine.asked)
	}
	if p := answer("another", 9); p.path != pathApproximate || p.miss != missNone || p.readings[chat.VLLM].miss != missEngine || engine.asked != 32 {
		t.Errorf("by %s, miss %s, asked %d times", p.path, p.readings[chat.VLLM].miss, engine.asked)
	}
}

func TestPromptTokensOfAnAnswerAreReadWhenSomebodyWantsThem(t *testing.T) {
	for _, c := range []struct {
		wanted bool
		event  string
		want   []uint32
	}{
		{true, `{"prompt_token_ids":[5,6],"choices":[]}`, []uint32{5, 6}},
		{false, `{"prompt_token_ids":[5,6],"choices":[]}`, nil},
		{true, `{"prompt_token_ids":null}`, nil},
		{true, `{"choices":[]}`, nil},
	} {
		a := answerReader{wantIDs: c.wanted}
		a.event([]byte(c.event))
		a.event([]byte(`{"prompt_token_ids":[9]}`)) // the first counts
		switch {
		case a.told == nil && c.want != nil, a.told != nil && c.want != nil && !slices.Equal(a.told.list, c.want):
			t.Errorf("%s: %+v", c.event, a.told)
		case a.told != nil && !c.wanted:
			t.Errorf("%s was read", c.event)
		}
	}
	odd := answerReader{wantIDs: true}
	odd.event([]byte(`{"prompt_token_ids":[1,"x"]}`))
	if odd.told == nil || !odd.told.bad {
		t.Error("what is no list of tokens was taken for one")
	}
}

var _ policy.ApproximateSource = (*promptKeys)(nil)
