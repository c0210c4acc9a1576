//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/openai/openai-go/v3"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/routerfleet/routerfleet/api/v1alpha1"
	"github.com/routerfleet/routerfleet/router/bootstrap/status"
	"github.com/routerfleet/routerfleet/test/data/toymodel"
)

// chatPage is the tokens of a page of engines that read chats.
const chatPage = 16

// chatKind is one kind of engine, and how the fleet reads prompts for it.
type chatKind struct {
	args    []string
	changes []change
	// path is how the routers come by tokens, as the decision table says it.
	path string
}

var chatKinds = map[string]chatKind{
	"sglang, own tokenizer": {[]string{"--engine=sglang"}, []change{ownTokenizer}, "own"},
	"vllm, own tokenizer": {
		[]string{"--engine=vllm"}, []change{ownTokenizer, set("workers.kvEvents.blockSize", int64(chatPage))}, "own",
	},
	"vllm, the engines' tokenizer": {
		[]string{"--engine=vllm"}, []change{set("workers.kvEvents.blockSize", int64(chatPage))}, "engine",
	},
}

// ownTokenizer has the routers read prompts by the files that the engines have.
func ownTokenizer(spec map[string]any) {
	spec["models"] = []any{map[string]any{"name": modelID, "tokenizer": map[string]any{"configMap": "tokenizer"}}}
}

// TestChatsOfOneSystemPromptGoWhereItIsCached: text never reaches an engine as the router sees it; that the second router
// finds what the first one's chat left shows that both read it as the engine does.
func TestChatsOfOneSystemPromptGoWhereItIsCached(t *testing.T) {
	t.Parallel()
	for name, kind := range chatKinds {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScope(t)
			s.tokenizer("tokenizer", toymodel.Plain)
			args := append([]string{fmt.Sprintf("--page-size=%d", chatPage), "--blocks=4096"}, kind.args...)
			e := s.startReaders(3, "tokenizer", args...)
			k := s.followsEvents(e, 3, append(kind.changes, replicas(2))...)
			for system := range 3 {
				first := k.chat(k.routers[system%2], system)
				k.await("every router knows the engine that has the system prompt", func() error { return k.chatKnown(system, first.engine, kind.path) })
				for _, r := range k.routers {
					if got := k.chat(r, system); got.engine != first.engine || got.cached == 0 {
						t.Errorf("router %s sent a chat with system prompt %d to %s, %d tokens cached, want %s and some", r.pod, system, got.engine, got.cached, first.engine)
					}
				}
			}
		})
	}
}

// TestAWrongTokenizerIsNamedByTheFleet: the routers read prompts otherwise than the engines. Nothing fails; the fleet says it.
func TestAWrongTokenizerIsNamedByTheFleet(t *testing.T) {
	t.Parallel()
	s := newScope(t)
	s.tokenizer("engines", toymodel.Plain)
	s.tokenizer("tokenizer", toymodel.OtherVocabulary)
	e := s.startReaders(1, "engines", fmt.Sprintf("--page-size=%d", chatPage))
	k := s.followsEvents(e, 1, replicas(1), ownTokenizer)
	k.chat(k.routers[0], 1)
	k.await("the fleet says that a tokenizer is not the engines'", func() error {
		fleet := k.get()
		return all(
			hasCondition(fleet, v1alpha1.ConditionWorkersDiscovered, metav1.ConditionTrue, v1alpha1.ReasonTokenParity),
			messageNames(fleet, v1alpha1.ConditionWorkersDiscovered, "token_parity"),
		)
	})
	code, body := k.adminGet(k.routers[0].pod, "/internal/bootstrap", k.admin)
	var said status.Status
	if err := json.Unmarshal(body, &said); err != nil || code != http.StatusOK {
		t.Fatalf("/internal/bootstrap answers %d %.300s (%v)", code, body, err)
	}
	at := slices.IndexFunc(said.Problems, func(p status.Problem) bool { return p.Code == status.CodeTokenParity })
	if at < 0 || !strings.Contains(said.Problems[at].Example, modelID) || !strings.Contains(said.Problems[at].Example, engineName(0)) {
		t.Errorf("the router's problems are %+v, want the model and the engine named", said.Problems)
	}
	k.chat(k.routers[0], 1)
}

// tokenizer puts the files of a toy model into a ConfigMap.
func (s *scope) tokenizer(name string, v toymodel.Variant) {
	s.Helper()
	dir := s.TempDir()
	if err := toymodel.Write(dir, v); err != nil {
		s.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(files) == 0 {
		s.Fatalf("the toy model has files %v (%v)", files, err)
	}
	m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name}, Data: map[string]string{}}
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			s.Fatal(err)
		}
		m.Data[filepath.Base(file)] = string(content)
	}
	if err := s.client.Create(s.ctx, m); err != nil {
		s.Fatal(err)
	}
}

// systemPrompt is of several pages, and of none that another one has.
func systemPrompt(n int) string {
	return strings.Repeat(fmt.Sprintf("system number %d says that the weather is what you answer. ", n), 12)
}

// chat asks a new question under a system prompt.
func (k *kvFleet) chat(r kvRouter, system int) served {
	k.Helper()
	k.tails++
	ctx, cancel := context.WithTimeout(k.ctx, requestTimeout)
	defer cancel()
	client := openAI(r.base)
	answer, err := client.Chat.Completions.New(ctx, openai.ChatCompletionNewParams{
		Model: modelID, MaxTokens: openai.Int(1),
		Messages: []openai.ChatCompletionMessageParamUnion{
			openai.SystemMessage(systemPrompt(system)), openai.UserMessage(fmt.Sprintf("question %d, please", k.tails)),
		},
	})
	if err != nil {
		k.Fatalf("send a chat through router %s: %v", r.pod, err)
	}
	var by struct {
		Engine string `json:"system_fingerprint"` // where doubles put their name
	}
	if err := json.Unmarshal([]byte(answer.RawJSON()), &by); err != nil {
		k.Fatalf("who answered a chat: %v", err)
	}
	return served{engine: by.Engine, cached: answer.Usage.PromptTokensDetails.CachedTokens}
}

// chatKnown is nil when every router would send a chat under the system prompt to the engine, for what its index says.
func (k *kvFleet) chatKnown(system int, engine, path string) error {
	body, err := json.Marshal(map[string]any{"model": modelID, "messages": []map[string]string{
		{"role": "system", "content": systemPrompt(system)}, {"role": "user", "content": "what is known?"},
	}})
	if err != nil {
		return err
	}
	for _, r := range k.routers {
		var table struct {
			Tokenization string `json:"tokenization"`
			KeyMiss      string `json:"keyMiss"`
			Candidates   []struct {
				Worker        string `json:"worker"`
				Chosen        bool   `json:"chosen"`
				MatchedBlocks int    `json:"matchedBlocks"`
			} `json:"candidates"`
		}
		text, err := k.decision(r, "/v1/chat/completions", body)
		if err == nil {
			err = json.Unmarshal(text, &table)
		}
		if err != nil {
			return err
		}
		for _, c := range table.Candidates {
			if c.Chosen && (c.Worker != k.worker(engine) || c.MatchedBlocks == 0) {
				return fmt.Errorf("router %s would choose %s for %d blocks, want %s for some: %.600s", r.pod, c.Worker, c.MatchedBlocks, k.worker(engine), text)
			}
		}
		if table.KeyMiss != "" || !strings.HasPrefix(table.Tokenization, path) {
			return fmt.Errorf("router %s came by the tokens by %q (miss %q), want %s", r.pod, table.Tokenization, table.KeyMiss, path)
		}
	}
	return nil
}
