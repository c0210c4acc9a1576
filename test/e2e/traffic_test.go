//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"

	"github.com/routerfleet/routerfleet/test/e2e/live"
	"github.com/routerfleet/routerfleet/test/loadgen"
)

// requestTimeout bounds one request of a test, engine included.
const requestTimeout = 20 * time.Second

// answer is what a client got.
type answer struct {
	status int
	header http.Header
	body   []byte
}

// openAIError is the error object of an answer; its zero value if there is none.
func (a answer) openAIError() (e struct{ Message, Type, Code string }) {
	var body struct {
		Error struct{ Message, Type, Code string } `json:"error"`
	}
	if json.Unmarshal(a.body, &body) == nil {
		e = body.Error
	}
	return e
}

// forward opens a way to the data port of a router for the rest of the test.
func (s *scope) forward(pod string) string {
	s.Helper()
	address, stop, err := s.Forward(s.ctx, s.namespace, pod, live.RouterPort)
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(stop)
	return "http://" + address
}

// post sends a body to a router.
func (s *scope) post(url string, body []byte) answer {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.ctx, requestTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		s.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		s.Fatalf("post %d bytes to %s: %v", len(body), url, err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		s.Fatalf("read the answer of %s: %v", url, err)
	}
	return answer{status: response.StatusCode, header: response.Header, body: text}
}

// openAI is the official client, pointed at a router. It does not retry: a retry would hide a failure.
func openAI(base string) openai.Client {
	return openai.NewClient(option.WithBaseURL(base+"/v1"), option.WithAPIKey("none"), option.WithMaxRetries(0))
}

// chats asks a router for one chat completion and says what was wrong with the answer.
func (s *scope) chats(base string) error {
	ctx, cancel := context.WithTimeout(s.ctx, requestTimeout)
	defer cancel()
	client := openAI(base)
	completion, err := client.Chat.Completions.New(ctx, openai.ChatCompletionNewParams{
		Model:     modelID,
		Messages:  []openai.ChatCompletionMessageParamUnion{openai.UserMessage("Which way to the harbour?")},
		MaxTokens: openai.Int(5),
	})
	if err != nil {
		return err
	}
	if len(completion.Choices) != 1 || completion.Choices[0].Message.Content == "" {
		return fmt.Errorf("the answer has no text: %s", completion.RawJSON())
	}
	return same("usage.completion_tokens", completion.Usage.CompletionTokens, 5)
}

// load is a run of the load generator in the test's namespace.
type load struct {
	*scope
	name     string
	result   chan loadEnd
	finished atomic.Int64
}

type loadEnd struct {
	result *loadgen.Result
	err    error
}

// longestLoad ends a load that nobody stops.
const longestLoad = testTimeout

// startLoad sends steady traffic to the fleet through its Service until it is stopped, and returns when
// the first requests are through.
func (f *fleet) startLoad() *load {
	f.Helper()
	l := &load{scope: f.scope, name: "load", result: make(chan loadEnd, 1)}
	job := live.Load{Namespace: f.namespace, Name: l.name, Image: f.images.loadgen, Args: []string{
		"--target=" + f.target(), "--model=" + modelID, "--mode=steady",
		"--duration=" + longestLoad.String(), "--connections=4", "--max-output=16",
	}}
	if err := f.Start(f.ctx, job); err != nil {
		f.Fatal(err)
	}
	go func() { l.result <- l.follow() }()
	f.await("the load is running", func() error {
		if l.finished.Load() < 10 {
			return fmt.Errorf("%d requests are through", l.finished.Load())
		}
		return nil
	})
	return l
}

func (l *load) follow() (end loadEnd) {
	err := l.Follow(l.ctx, l.namespace, l.name, func(line []byte) error {
		event, err := live.ParseLoad(line)
		switch {
		case err != nil:
			return fmt.Errorf("the load generator printed %q: %w", line, err)
		case event.Progress != nil:
			l.finished.Store(int64(event.Progress.Done))
		case event.Result != nil:
			end.result = event.Result
		}
		return nil
	})
	if err == nil && end.result == nil {
		err = live.ErrNoResult
	}
	end.err = err
	return end
}

// mustHaveServedAll stops the load and fails the test if a single request failed, or if the load had ended
// before: it would have seen only part of what it was to witness.
func (l *load) mustHaveServedAll() *loadgen.Result {
	l.Helper()
	if len(l.result) > 0 {
		l.Fatalf("the load ended by itself: %v", (<-l.result).err)
	}
	if err := l.StopLoad(l.ctx, l.namespace, l.name); err != nil {
		l.Fatal(err)
	}
	select {
	case <-l.ctx.Done():
		l.Fatal("the load did not end before the test's time was up")
	case end := <-l.result:
		if end.err != nil {
			l.Fatalf("follow the load: %v", end.err)
		}
		if end.result.Failed > 0 || end.result.Requests == 0 {
			l.Errorf("%d of %d requests failed, want none:\n%s", end.result.Failed, end.result.Requests, strings.Join(live.Summary(end.result), "\n"))
		}
		return end.result
	}
	return nil
}

// adminGet reads a path of a router's admin port with a bearer token. It needs a connection of its own:
// the API server's proxy keeps Authorization to itself.
func (s *scope) adminGet(pod, path, token string) (status int, body []byte) {
	s.Helper()
	status, body, err := s.askAdmin(pod, path, token)
	if err != nil {
		s.Fatal(err)
	}
	return status, body
}

// askAdmin is adminGet of a pod that may be gone.
func (s *scope) askAdmin(pod, path, token string) (status int, body []byte, err error) {
	address, stop, err := s.Forward(s.ctx, s.namespace, pod, live.RouterAdminPort)
	if err != nil {
		return 0, nil, err
	}
	defer stop()
	request, err := http.NewRequestWithContext(s.ctx, http.MethodGet, "http://"+address+path, nil)
	if err != nil {
		return 0, nil, err
	}
	request.Header.Set("Authorization", "Bearer "+token)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, nil, err
	}
	defer response.Body.Close()
	body, err = io.ReadAll(response.Body)
	return response.StatusCode, body, err
}
