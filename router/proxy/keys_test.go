package proxy

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/routerfleet/routerfleet/router/index"
	"github.com/routerfleet/routerfleet/router/policy"
	"github.com/routerfleet/routerfleet/router/tokens"
	"github.com/routerfleet/routerfleet/router/workers"
	"github.com/routerfleet/routerfleet/router/workers/workerstest"
)

const keySeed = index.Seed(7)

// keysFixture is a key maker beside a worker that serves one model.
func keysFixture(tb testing.TB, wanted bool) *keyMaker {
	tb.Helper()
	m, err := newMetrics(prometheus.NewRegistry())
	if err != nil {
		tb.Fatal(err)
	}
	registry := workerstest.Registry(tb, workerstest.Worker{ID: "a", URL: "http://a:1", Models: []string{"base"}})
	return newKeyMaker(KeyOptions{Wanted: func() bool { return wanted }, Seed: keySeed, HashSeed: "42"}, registry, m)
}

// sourceOf reads a body as a route does.
func sourceOf(tb testing.TB, k *keyMaker, path, body string) *promptKeys {
	tb.Helper()
	rt := &routes[slices.IndexFunc(routes, func(r route) bool { return r.path == path })]
	c, fault := readCall([]byte(body), rt.prompt, k.collector())
	if fault != nil {
		tb.Fatal(fault)
	}
	return &promptKeys{maker: k, call: &c, route: rt}
}

var keySpacesOfTest = []policy.KeySpace{
	{Model: "base", Scheme: index.SchemeSGLang, BlockSize: 4},
	{Model: "base", Scheme: index.SchemeSGLang, BlockSize: 4, Bigram: true},
	{Model: "base", Scheme: index.SchemeVLLM, BlockSize: 2},
	{Model: "base", Scheme: index.SchemeTokens, BlockSize: 3},
}

// keysOf is what a keyer says by itself.
func keysOf(tb testing.TB, s policy.KeySpace, c tokens.Context, ids ...uint32) []index.Key {
	tb.Helper()
	k, err := tokens.NewKeyer(tokens.Options{Scheme: s.Scheme, BlockSize: s.BlockSize, Bigram: s.Bigram, HashSeed: "42", Model: s.Model, Seed: keySeed})
	if err != nil {
		tb.Fatal(err)
	}
	keys, err := k.Append(nil, ids, c)
	if err != nil {
		tb.Fatal(err)
	}
	return keys
}

func TestTokenIDPromptsHaveTheKeysOfTheirTokensInEverySpace(t *testing.T) {
	k := keysFixture(t, true)
	for _, c := range []struct {
		path, body string
		context    tokens.Context
	}{
		{"/v1/completions", `{"model":"base","prompt":[1,2,3,4,5,6,7,4294967295]}`, tokens.Context{}},
		{"/v1/completions", `{"prompt":[ 1, 2,3,4,5,6,7 , 4294967295 ],"cache_salt":"","echo":false,"prompt_logprobs":null}`, tokens.Context{}},
		{"/v1/completions", `{"prompt":[[1,2,3,4,5,6,7,4294967295]],"max_tokens":5}`, tokens.Context{}},
		{"/v1/completions", `{"prompt":[9],"prompt":[1,2,3,4,5,6,7,4294967295]}`, tokens.Context{}},
		{"/generate", `{"input_ids":[1,2,3,4,5,6,7,4294967295],"logprob_start_len":-1,"lora_path":null,"image_data":[]}`, tokens.Context{}},
		{"/v1/completions", `{"prompt":[1,2,3,4,5,6,7,4294967295],"cache_salt":"ten\u0061nt"}`, tokens.Context{CacheSalt: "tenant"}},
	} {
		p := sourceOf(t, k, c.path, c.body)
		for range 2 { // the second answer is the first one
			for _, space := range keySpacesOfTest {
				want := keysOf(t, space, c.context, 1, 2, 3, 4, 5, 6, 7, 4294967295)
				if got := p.Keys(space); len(got) == 0 || !slices.Equal(got, want) {
					t.Errorf("%s in %+v: %x, want %x", c.body, space, got, want)
				}
			}
		}
		if p.miss != missNone || len(p.spaces) != len(keySpacesOfTest) {
			t.Errorf("%s: miss %s, %d spaces computed", c.body, p.miss, len(p.spaces))
		}
		p.release()
		p.call.ids.free()
	}
}

func TestAPromptWhoseKeysCouldDifferHasNone(t *testing.T) {
	long := "[" + strings.Repeat("1,", maxKeyedTokens) + "1]"
	for _, c := range []struct {
		path, body string
		reason     missReason
	}{
		{"/v1/completions", `{"prompt":"text"}`, missText},
		{"/v1/completions", `{"prompt":["text"]}`, missText},
		{"/generate", `{"text":"text"}`, missText},
		{"/v1/chat/completions", `{"messages":[{"role":"user","content":"hi"}]}`, missChat},
		{"/v1/completions", `{"prompt":[[1,2,3],[1,2,3]]}`, missBatch},
		{"/v1/completions", `{"prompt":["a","b"]}`, missBatch},
		{"/generate", `{"input_ids":[1,2],"lora_path":"tuned"}`, missLoRA},
		{"/generate", `{"input_ids":[1,2],"image_data":"http://x/y.png"}`, missMedia},
		{"/v1/completions", `{"prompt":[1,2],"prompt_embeds":"x"}`, missMedia},
		{"/v1/completions", `{"prompt":[1,2],"echo":true}`, missOptions},
		{"/v1/completions", `{"prompt":[1,2],"data_parallel_rank":0}`, missOptions},
		{"/generate", `{"input_ids":[1,2],"routed_dp_rank":1}`, missOptions},
		{"/v1/completions", `{"prompt":[1,2],"kv_transfer_params":{"do_remote_prefill":true}}`, missOptions},
		{"/v1/completions", `{"prompt":[1,2],"prompt_logprobs":0}`, missOptions},
		{"/v1/completions", `{"prompt":[1,2],"truncate_prompt_tokens":1}`, missOptions},
		{"/generate", `{"input_ids":[1,2],"logprob_start_len":0}`, missOptions},
		{"/generate", `{"input_ids":[1,2],"session_params":{"id":"s"}}`, missOptions},
		{"/v1/completions", `{"prompt":[1,4294967296]}`, missUnreadable},
		{"/v1/completions", `{"prompt":[1,-2]}`, missUnreadable},
		{"/v1/completions", `{"prompt":[1,2.5]}`, missUnreadable},
		{"/v1/completions", `{"prompt":[1,"a"]}`, missUnreadable},
		{"/v1/completions", `{"prompt":{"a":1}}`, missUnreadable},
		{"/v1/completions", `{}`, missUnreadable},
		{"/v1/completions", `{"prompt":` + long + `}`, missUnreadable},
		{"/v1/completions", `{"prompt":[1,2],"cache_salt":7}`, missUnreadable},
		{"/generate", `{"input_ids":[1,2],"cache_salt":["a"]}`, missUnreadable},
		{"/v1/completions", `{"prompt":[1,2],"cache_salt":"` + strings.Repeat("s", maxSaltBytes) + `"}`, missUnreadable},
	} {
		k := keysFixture(t, true)
		p := sourceOf(t, k, c.path, c.body)
		for _, space := range keySpacesOfTest {
			if got := p.Keys(space); len(got) != 0 {
				t.Errorf("%.80s in %+v: %x", c.body, space, got)
			}
		}
		if p.miss != c.reason {
			t.Errorf("%.80s: %s, want %s", c.body, p.miss, c.reason)
		}
		for reason := missText; reason < missEnd; reason++ {
			want := 0.0
			if reason == c.reason {
				want = 1 // a request, not a space
			}
			if got := counted(t, k, reason); got != want {
				t.Errorf("%.80s: %v misses %s, want %v", c.body, got, reason, want)
			}
		}
	}
}

func counted(t *testing.T, k *keyMaker, r missReason) float64 {
	t.Helper()
	registry := prometheus.NewRegistry()
	registry.MustRegister(k.metrics.misses)
	return gather(t, registry)[`routerfleet_tokenization_miss_total{reason="`+r.String()+`"}`]
}

// vLLM serves an adapter as a model of its own and says whose child it is; SGLang's hashes do not tell adapters apart.
func TestAnAdapterIsPartOfTheKeysOrThereAreNone(t *testing.T) {
	k := keysFixture(t, true)
	k.models = func() []workers.Model { return []workers.Model{{ID: "base"}, {ID: "tuned", Parent: "base"}} }
	body := `{"model":"tuned","prompt":[1,2,3,4,5,6]}`
	for _, space := range keySpacesOfTest {
		p := sourceOf(t, k, "/v1/completions", body)
		got := p.Keys(space)
		if space.Scheme == index.SchemeSGLang {
			if len(got) != 0 || p.miss != missLoRA {
				t.Errorf("%+v: %x, %s", space, got, p.miss)
			}
			continue
		}
		if want := keysOf(t, space, tokens.Context{LoRA: "tuned"}, 1, 2, 3, 4, 5, 6); !slices.Equal(got, want) {
			t.Errorf("%+v: %x, want %x", space, got, want)
		}
	}
	if got := k.adapter("base"); got != "" {
		t.Errorf("the base model is called an adapter, %q", got)
	}
}

func TestNobodyPaysForKeysThatNobodyWants(t *testing.T) {
	k := keysFixture(t, false)
	p := sourceOf(t, k, "/v1/completions", `{"prompt":[1,2,3,4]}`)
	if p.call.ids != nil || p.call.prompt.tokens != 4 {
		t.Errorf("ids %v of %d tokens", p.call.ids, p.call.prompt.tokens)
	}
	if got := p.Keys(keySpacesOfTest[0]); got != nil || p.miss != missNone {
		t.Errorf("%x, %s", got, p.miss)
	}
}

func TestKeySpacesAreBounded(t *testing.T) {
	k := keysFixture(t, true)
	for i := range 3 * maxKeySpaces {
		p := sourceOf(t, k, "/v1/completions", `{"prompt":[1,2,3,4]}`)
		p.Keys(policy.KeySpace{Model: fmt.Sprint(i), Scheme: index.SchemeTokens, BlockSize: 2})
		if n := len(*k.pools.Load()); n > maxKeySpaces {
			t.Fatalf("%d spaces are kept", n)
		}
	}
	p := sourceOf(t, k, "/v1/completions", `{"prompt":[1,2,3,4]}`)
	if p.Keys(policy.KeySpace{Model: "m", Scheme: "another", BlockSize: 2}); p.miss != missScheme {
		t.Errorf("an unknown scheme: %s", p.miss)
	}
}

func idBody(n int) string {
	var b strings.Builder
	b.WriteString(`{"model":"base","max_tokens":16,"prompt":[`)
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprint(&b, 1000+i*7919%120_000)
	}
	b.WriteString(`]}`)
	return b.String()
}

func TestKeysAreMadeWithoutAllocationPerToken(t *testing.T) {
	k := keysFixture(t, true)
	allocations := func(n int) float64 {
		body := idBody(n)
		return testing.AllocsPerRun(100, func() {
			p := sourceOf(t, k, "/v1/completions", body)
			if len(p.Keys(keySpacesOfTest[3])) != (n+2)/3 {
				t.Fatal("wrong number of keys")
			}
			p.release()
			p.call.ids.free()
		})
	}
	short, long := allocations(12), allocations(12_000)
	if long > short+60 { // a collection may take the pools' buffers, which grow anew by doubling; the race detector drops some
		t.Errorf("12 tokens take %v allocations, 12,000 take %v", short, long)
	}
}

// BenchmarkKeys is reading a body of token ids and making its keys.
func BenchmarkKeys(b *testing.B) {
	for _, n := range []int{256, 12_000, 100_000} {
		for _, space := range []policy.KeySpace{
			{}, {Model: "base", Scheme: index.SchemeSGLang, BlockSize: 64},
			{Model: "base", Scheme: index.SchemeVLLM, BlockSize: 16}, {Model: "base", Scheme: index.SchemeTokens, BlockSize: 16},
		} {
			b.Run(fmt.Sprintf("tokens=%d/scheme=%s", n, space.Scheme), func(b *testing.B) {
				k, body := keysFixture(b, space.Scheme != ""), idBody(n)
				b.ReportAllocs()
				for b.Loop() {
					p := sourceOf(b, k, "/v1/completions", body)
					if space.Scheme != "" {
						p.Keys(space)
					}
					p.release()
					p.call.ids.free()
				}
			})
		}
	}
}
