package main

import (
	"time"

	"github.com/routerfleet/routerfleet/router/tokens/chat"
	"github.com/routerfleet/routerfleet/router/tokens/model"
	"github.com/routerfleet/routerfleet/test/enginesim/httpapi"
)

// tokenFlags say what prompts are read with. The router's own packages do it: that they agree with the reference is shown
// by tests against the reference (stage npm), and two implementations of a tokenizer would be one too many here.
type tokenFlags struct {
	TokenizerPath string `help:"Directory with tokenizer.json and a chat template; empty: a toy in which a byte is a token." name:"tokenizer-path"`
	ChatTemplate  string `help:"File with another chat template." name:"chat-template"`
	Tokenize      bool   `help:"Tell the tokens of prompts (/tokenize)." default:"true" negatable:""`
}

// loadTokenizer gives nil for the toy.
func (f flags) loadTokenizer() (httpapi.Tokenizer, error) {
	if f.TokenizerPath == "" {
		return nil, nil
	}
	m, err := model.Load(model.Files{Path: f.TokenizerPath, ChatTemplate: f.ChatTemplate})
	if err != nil {
		return nil, err
	}
	t := modelTokenizer{m, chat.VLLM}
	if f.Engine == "sglang" {
		t.dialect = chat.SGLang
	}
	return t, nil
}

// modelTokenizer reads requests in an engine's dialect.
type modelTokenizer struct {
	*model.Model
	dialect chat.Dialect
}

func (t modelTokenizer) Text(text string, bare bool) ([]uint32, error) {
	return t.Model.Text(nil, text, bare)
}

func (t modelTokenizer) Chat(body []byte) ([]uint32, error) {
	return t.Model.Chat(nil, body, t.dialect, time.Now())
}
