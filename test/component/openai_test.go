package component

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"

	"github.com/routerfleet/routerfleet/router/app"
)

// openAIEngine answers chat and completions, streamed or not, and cuts streams on request.
func openAIEngine(t *testing.T) *engine {
	return newEngine(t, func(w http.ResponseWriter, r *http.Request) {
		stream := r.Header.Get("Accept") == "text/event-stream" || r.Header.Get("X-Request-Id") != ""
		switch {
		case !stream && r.URL.Path == completionsPath:
			writeAnswer(w, 200, `{"id":"1","object":"text_completion","model":"m","choices":[{"index":0,"text":"hi there","finish_reason":"stop"}],"usage":{"prompt_tokens":3,"completion_tokens":2,"total_tokens":5}}`)
		case !stream:
			writeAnswer(w, 200, `{"id":"1","object":"chat.completion","model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"hi there"},"finish_reason":"stop"}],"usage":{"prompt_tokens":3,"completion_tokens":2,"total_tokens":5}}`)
		default:
			w.Header().Set("Content-Type", "text/event-stream")
			if r.URL.Path == completionsPath {
				flush(w, `data: {"id":"1","object":"text_completion","choices":[{"index":0,"text":"hi "}]}`+"\n\n")
				flush(w, `data: {"id":"1","object":"text_completion","choices":[{"index":0,"text":"there"}]}`+"\n\n")
			} else {
				flush(w, content("hi "))
				flush(w, content("there"))
			}
			if r.Header.Get("X-Request-Id") == "cut" {
				reset(w)
				return
			}
			flush(w, "data: [DONE]\n\n")
		}
	})
}

func openAIClient(r *router) openai.Client {
	return openai.NewClient(option.WithBaseURL(r.data+"/v1"), option.WithAPIKey("client"), option.WithHTTPClient(r.client), option.WithMaxRetries(0))
}

func chatParams(model string) openai.ChatCompletionNewParams {
	return openai.ChatCompletionNewParams{Model: model, Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage("hello")}}
}

func completionParams() openai.CompletionNewParams {
	return openai.CompletionNewParams{Model: "m", Prompt: openai.CompletionNewParamsPromptUnion{OfString: openai.String("hello")}}
}

func TestTheOpenAIClientChatsAndCompletes(t *testing.T) {
	r := startRouter(t, app.Options{}, openAIEngine(t).URL)
	c, ctx := openAIClient(r), context.Background()
	chat, err := c.Chat.Completions.New(ctx, chatParams("m"))
	if err != nil || chat.Choices[0].Message.Content != "hi there" || chat.Usage.TotalTokens != 5 {
		t.Errorf("chat: %v %+v", err, chat)
	}
	completion, err := c.Completions.New(ctx, completionParams())
	if err != nil || completion.Choices[0].Text != "hi there" {
		t.Errorf("completion: %v %+v", err, completion)
	}
	models, err := c.Models.List(ctx)
	if err != nil || len(models.Data) != 1 || models.Data[0].ID != "m" {
		t.Errorf("models: %v %+v", err, models)
	}
}

func TestTheOpenAIClientStreams(t *testing.T) {
	r := startRouter(t, app.Options{}, openAIEngine(t).URL)
	c, ctx := openAIClient(r), context.Background()
	marked := option.WithHeader("X-Request-Id", "stream")
	var text strings.Builder
	chat := c.Chat.Completions.NewStreaming(ctx, chatParams("m"), marked)
	for chat.Next() {
		text.WriteString(chat.Current().Choices[0].Delta.Content)
	}
	if chat.Err() != nil || text.String() != "hi there" {
		t.Errorf("chat: %v %q", chat.Err(), text.String())
	}
	text.Reset()
	completion := c.Completions.NewStreaming(ctx, completionParams(), marked)
	for completion.Next() {
		text.WriteString(completion.Current().Choices[0].Text)
	}
	if completion.Err() != nil || text.String() != "hi there" {
		t.Errorf("completion: %v %q", completion.Err(), text.String())
	}
}

func TestTheOpenAIClientSeesErrorsAsErrors(t *testing.T) {
	r := startRouter(t, app.Options{}, openAIEngine(t).URL)
	c, ctx := openAIClient(r), context.Background()
	_, err := c.Chat.Completions.New(ctx, chatParams("unknown"))
	if fault, ok := errors.AsType[*openai.Error](err); !ok || fault.StatusCode != 404 || fault.Code != "model_not_found" || fault.Param != "model" {
		t.Errorf("unknown model: %v", err)
	}
	cut := c.Chat.Completions.NewStreaming(ctx, chatParams("m"), option.WithHeader("X-Request-Id", "cut"))
	events := 0
	for cut.Next() {
		events++
	}
	if err := cut.Err(); events != 2 || err == nil || !strings.Contains(err.Error(), "upstream_body_incomplete") && !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("a cut stream: %d events, %v", events, err)
	}
}
