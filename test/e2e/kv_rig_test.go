//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strings"
	"testing"

	"github.com/openai/openai-go/v3"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/routerfleet/routerfleet/test/e2e/live"
)

const (
	// kvPage is the tokens of a page of the test's engines, kvCachePages how many of them one keeps.
	kvPage       = 64
	kvCachePages = 64
	// kvPrefixPages is the length of the prefixes whose way is followed: short beside the cache.
	kvPrefixPages = 8
	// kvPrefixTokens is what of such a prefix an engine can have cached.
	kvPrefixTokens = kvPrefixPages * kvPage
	// kvTail is the tokens that follow a prefix in a request. They fill no page.
	kvTail = 8
)

// kvEngineArgs make engines of that size, which tell of every page they store or drop.
var kvEngineArgs = []string{fmt.Sprintf("--page-size=%d", kvPage), fmt.Sprintf("--blocks=%d", kvCachePages)}

// prefix is a beginning of prompts that no other shares a page with.
type prefix struct {
	number int64
	pages  int
}

// tokens are the prefix and a tail of its own kind, as token ids that every vocabulary has.
func (p prefix) tokens(tail int64) []int64 {
	ids := make([]int64, 0, p.pages*kvPage+kvTail)
	for i := range int64(p.pages * kvPage) {
		ids = append(ids, (p.number*997+i*31)%20_000)
	}
	for i := range int64(kvTail) {
		ids = append(ids, 20_000+(tail*97+i)%10_000)
	}
	return ids
}

// held is a prefix and the engine that has it.
type held struct {
	prefix
	engine string
}

// kvFleet is a fleet whose routers are asked one by one. It is for one goroutine.
type kvFleet struct {
	*fleet
	engines *engines
	routers []kvRouter
	admin   string          // token
	taken   map[string]bool // engines that have a prefix of serveFirst
	*numbers
}

// numbers keep prefixes and tails apart, across subtests.
type numbers struct{ prefixes, tails int64 }

// newPrefix is one that no request had.
func (n *numbers) newPrefix(pages int) prefix {
	n.prefixes++
	return prefix{number: n.prefixes, pages: pages}
}

// kvRouter is a router and the way to its data port.
type kvRouter struct{ pod, base string }

// followsEvents makes a fleet and waits until each of its routers reads the events of all engines.
func (s *scope) followsEvents(e *engines, engineCount int, changes ...change) *kvFleet {
	s.Helper()
	k := &kvFleet{fleet: s.createFleet("follows", changes...), engines: e, taken: map[string]bool{}, numbers: &numbers{}}
	for _, pod := range k.pods() {
		k.routers = append(k.routers, kvRouter{pod: pod.Name, base: k.forward(pod.Name)})
	}
	k.admin = k.token("admin")
	k.await("every router reads every engine's events", func() error {
		return k.fleet.routers(func(m live.Metrics) error {
			up := m.By("routerfleet_kv_subscriptions_up", "worker")
			for i := range engineCount {
				if up[k.worker(engineName(i))] != 1 {
					return fmt.Errorf("subscriptions up: %v, want 1 for each of %d engines", up, engineCount)
				}
			}
			return nil
		})
	})
	return k
}

// saysSubscribed is nil when the fleet's status tells that the routers read the events of n engines. The operator asks
// them every 10 s.
func (f *fleet) saysSubscribed(n int32) error {
	f.Helper()
	w := f.get().Status.Workers
	if w == nil {
		return fmt.Errorf("status.workers is absent")
	}
	return same("status.workers.subscribed", count(w.Subscribed), n)
}

// in is the fleet as a subtest uses it.
func (k *kvFleet) in(t *testing.T) *kvFleet {
	sub := *k
	sub.fleet = k.fleet.in(t)
	sub.engines = &engines{scope: sub.scope, args: k.engines.args}
	return &sub
}

// token reads one of the fleet's tokens.
func (f *fleet) token(key string) string {
	f.Helper()
	var secret corev1.Secret
	if err := f.client.Get(f.ctx, client.ObjectKey{Namespace: f.namespace, Name: f.name + "-tokens"}, &secret); err != nil {
		f.Fatalf("read the tokens of fleet %s: %v", f.name, err)
	}
	return string(secret.Data[key])
}

// worker is an engine's label in metrics and decision tables.
func (s *scope) worker(engine string) string { return s.namespace + "/" + engine }

// served is what a client learns of where its prompt went.
type served struct {
	engine string
	cached int64 // tokens of the prompt
}

// ask sends a prefix with a new tail through a router.
func (k *kvFleet) ask(r kvRouter, p prefix) served {
	k.Helper()
	k.tails++
	ctx, cancel := context.WithTimeout(k.ctx, requestTimeout)
	defer cancel()
	client := openAI(r.base)
	answer, err := client.Completions.New(ctx, openai.CompletionNewParams{
		Model: modelID, MaxTokens: openai.Int(1),
		Prompt: openai.CompletionNewParamsPromptUnion{OfArrayOfTokens: p.tokens(k.tails)},
	})
	if err != nil {
		k.Fatalf("send prefix %d through router %s: %v", p.number, r.pod, err)
	}
	return served{engine: answer.SystemFingerprint, cached: answer.Usage.PromptTokensDetails.CachedTokens}
}

// give sends a prefix straight to an engine, past all routers.
func (k *kvFleet) give(engine string, p prefix) {
	k.Helper()
	k.tails++
	body := completionBody(p.tokens(k.tails))
	if _, err := k.PodRequest(k.ctx, http.MethodPost, k.namespace, engine, enginePort, "/v1/completions", body); err != nil {
		k.Fatalf("give prefix %d to engine %s: %v", p.number, engine, err)
	}
}

func completionBody(tokens []int64) []byte {
	body, err := json.Marshal(map[string]any{"model": modelID, "max_tokens": 1, "prompt": tokens})
	if err != nil {
		panic(fmt.Sprintf("encode token ids: %v", err)) // ints always marshal
	}
	return body
}

// fault switches a fault of an engine on.
func (e *engines) fault(engine, fault string) {
	e.Helper()
	if _, err := e.PodRequest(e.ctx, http.MethodPost, e.namespace, engine, enginePort, "/control/faults", []byte(fault)); err != nil {
		e.Fatalf("engine %s: fault %s: %v", engine, fault, err)
	}
}

// nextSeq is the number of an engine's next batch of events, by its own account.
func (e *engines) nextSeq(engine string) int64 {
	e.Helper()
	body, err := e.PodGet(e.ctx, e.namespace, engine, enginePort, "/control/state")
	if err != nil {
		e.Fatal(err)
	}
	var state struct {
		NextSeqs []int64 `json:"next_seqs"`
	}
	if err := json.Unmarshal(body, &state); err != nil || len(state.NextSeqs) != 1 {
		e.Fatalf("engine %s: next seqs %v (%v), want one", engine, state.NextSeqs, err)
	}
	return state.NextSeqs[0]
}

// credit is what a router counts on for a prompt, by engine: pages its index holds, and tokens after discounts. Engines
// that have none of the prompt are left out.
type credit struct {
	pages  map[string]int
	tokens map[string]int
}

// explain asks a router for the decision it would take.
func (k *kvFleet) explain(r kvRouter, p prefix) (c credit, err error) {
	text, err := k.decision(r, "/v1/completions", completionBody(p.tokens(0)))
	if err != nil {
		return c, err
	}
	return k.readTable(text)
}

// decision asks a router for the table of a request it would send.
func (k *kvFleet) decision(r kvRouter, path string, body []byte) ([]byte, error) {
	ctx, cancel := context.WithTimeout(k.ctx, requestTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, r.base+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("X-RouterFleet-Explain", "1")
	request.Header.Set("X-RouterFleet-Token", k.admin)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, fmt.Errorf("ask for a decision table: %w", err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("a decision table is answered %d %.300s (%v)", response.StatusCode, text, err)
	}
	return text, nil
}

func (k *kvFleet) readTable(text []byte) (c credit, err error) {
	var table struct {
		KeyMiss    string `json:"keyMiss"`
		Candidates []struct {
			Worker        string `json:"worker"`
			MatchedBlocks int    `json:"matchedBlocks"`
			CreditTokens  int    `json:"creditTokens"`
		} `json:"candidates"`
	}
	if err := json.Unmarshal(text, &table); err != nil || table.KeyMiss != "" || len(table.Candidates) == 0 {
		return c, fmt.Errorf("a decision table without keys or candidates: %.300s (%v)", text, err)
	}
	c = credit{pages: map[string]int{}, tokens: map[string]int{}}
	for _, row := range table.Candidates {
		engine := strings.TrimPrefix(row.Worker, k.namespace+"/")
		if row.MatchedBlocks > 0 {
			c.pages[engine] = row.MatchedBlocks
		}
		if row.CreditTokens > 0 {
			c.tokens[engine] = row.CreditTokens
		}
	}
	return c, nil
}

// known is nil when every router counts on this engine, and on no other, for the whole prefix.
func (k *kvFleet) known(h held) error {
	return k.counted(h.prefix, map[string]int{h.engine: h.pages})
}

// gone is nil when no router counts on any engine for any of the prefix.
func (k *kvFleet) gone(p prefix) error { return k.counted(p, map[string]int{}) }

func (k *kvFleet) counted(p prefix, pages map[string]int) error {
	var problems []error
	for _, r := range k.routers {
		c, err := k.explain(r, p)
		if err == nil && (!maps.Equal(c.pages, pages) || len(c.tokens) != len(pages)) {
			err = fmt.Errorf("prefix %d: pages %v, tokens counted on %v, want pages %v", p.number, c.pages, c.tokens, pages)
		}
		if err != nil {
			problems = append(problems, fmt.Errorf("router %s: %w", r.pod, err))
		}
	}
	return all(problems...)
}

// mustGoTo sends the prefix through every router: each must choose the engine that holds it, which must find it cached.
func (k *kvFleet) mustGoTo(h held) {
	k.Helper()
	for _, r := range k.routers {
		if got, want := k.ask(r, h.prefix), (served{engine: h.engine, cached: kvPrefixTokens}); got != want {
			k.Errorf("router %s sent prefix %d to %s, %d tokens cached, want %s with %d",
				r.pod, h.number, got.engine, got.cached, want.engine, want.cached)
		}
	}
}
