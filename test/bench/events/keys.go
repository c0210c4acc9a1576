package main

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/routerfleet/routerfleet/router/index"
	"github.com/routerfleet/routerfleet/router/tokens"
)

// promptTokens is the length of the prompt whose keys are made.
const promptTokens = 12_000

// keys measures what a request pays for its block keys.
func (f *figures) keys(roundTime time.Duration) error {
	o := tokens.Options{Scheme: f.Row.Scheme, BlockSize: f.Row.BlockSize}
	switch o.Scheme {
	case index.SchemeVLLM:
		o.HashSeed = "42"
	case index.SchemeTokens:
		o.Model, o.Seed = model, seed
	}
	k, err := tokens.NewKeyer(o)
	if err != nil {
		return err
	}
	r := rand.New(rand.NewPCG(1, 2))
	prompt := make([]uint32, promptTokens)
	for i := range prompt {
		prompt[i] = r.Uint32N(vocabulary)
	}
	var dst []index.Key
	prompts, began := 0, time.Now()
	for prompts == 0 || time.Since(began) < roundTime {
		if dst, err = k.Append(dst[:0], prompt, tokens.Context{}); err != nil {
			return err
		}
		prompts++
	}
	f.Prompt = time.Since(began) / time.Duration(prompts)
	if len(dst) < promptTokens/f.Row.BlockSize {
		return fmt.Errorf("%d keys for %d tokens in blocks of %d", len(dst), promptTokens, f.Row.BlockSize)
	}
	return nil
}
