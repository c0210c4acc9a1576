package app

import (
	"errors"
	"fmt"
	"time"

	"github.com/routerfleet/routerfleet/router/tokens/chat"
	"github.com/routerfleet/routerfleet/router/tokens/remote"
)

// TokenOptions are the flags of tokenization. Pointers are fields whose zero is a value of its own; nil means the default.
type TokenOptions struct {
	TokenizerPath string `name:"tokenizer-path" group:"Tokenization" placeholder:"PATH" help:"Directory with the model's tokenizer.json and, for chat, tokenizer_config.json or chat_template.jinja; or a tokenizer.json. Prompts of text get block keys by it. Several models name theirs in --models-file."`
	ChatTemplate  string `name:"chat-template" group:"Tokenization" placeholder:"FILE" help:"File with the chat template the engines use, if it is not the one beside the tokenizer (their --chat-template)."`
	DefaultKwargs string `name:"default-chat-template-kwargs" group:"Tokenization" placeholder:"JSON" help:"JSON object of template variables that the engines were started with (their --default-chat-template-kwargs)."`

	EngineTokenize        *bool `name:"engine-tokenize" negatable:"" group:"Tokenization" default:"true" help:"Ask an engine for the tokens of a prompt that the router cannot tokenize."`
	EngineTokenizeTimeout int   `name:"engine-tokenize-timeout-ms" group:"Tokenization" default:"100" placeholder:"MS" help:"How long a request waits for them. Without them it is routed by its text."`
	EngineTokenizeCacheMB int   `name:"engine-tokenize-cache-mb" group:"Tokenization" default:"64" placeholder:"MB" help:"Memory for tokens that engines told."`
}

// Bounds of the tokenization flags.
const (
	maxEngineTokenizeMS = 60_000
	maxEngineTokenizeMB = 65_536
)

func (o *TokenOptions) fillDefaults() {
	if o.EngineTokenize == nil {
		on := true
		o.EngineTokenize = &on
	}
	fill(&o.EngineTokenizeTimeout, int(remote.DefaultTimeout/time.Millisecond))
	fill(&o.EngineTokenizeCacheMB, remote.DefaultCacheBytes>>20)
}

// validate expects defaults to be filled in.
func (o *TokenOptions) validate(modelsFile string) error {
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	if o.ChatTemplate != "" && o.TokenizerPath == "" {
		fault("--chat-template does nothing without --tokenizer-path")
	}
	if o.TokenizerPath != "" && modelsFile != "" {
		fault("--tokenizer-path is for one model: with --models-file, give each model its tokenizer there")
	}
	if _, err := chat.ParseKwargs(o.DefaultKwargs); err != nil {
		fault("--default-chat-template-kwargs: %w", err)
	}
	if o.EngineTokenizeTimeout < 1 || o.EngineTokenizeTimeout > maxEngineTokenizeMS {
		fault("--engine-tokenize-timeout-ms %d is outside 1 to %d", o.EngineTokenizeTimeout, maxEngineTokenizeMS)
	}
	if o.EngineTokenizeCacheMB < 1 || o.EngineTokenizeCacheMB > maxEngineTokenizeMB {
		fault("--engine-tokenize-cache-mb %d is outside 1 to %d", o.EngineTokenizeCacheMB, maxEngineTokenizeMB)
	}
	return errors.Join(faults...)
}
