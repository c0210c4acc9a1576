package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/routerfleet/routerfleet/router/index"
	"github.com/routerfleet/routerfleet/router/policy"
	"github.com/routerfleet/routerfleet/router/tokens"
	"github.com/routerfleet/routerfleet/router/tokens/bpe"
	"github.com/routerfleet/routerfleet/router/workers"
	"github.com/routerfleet/routerfleet/test/bench/clock"
)

const (
	// promptTokens is how long a chat is.
	promptTokens = 12_000
	// turnBytes is how long its messages are: some 250 tokens.
	turnBytes = 1000
	// ranks hold blocks of the chats.
	ranks     = 64
	blockSize = 16
)

// prompt is how long a chat of promptTokens takes, medians and 99th percentiles.
type prompt struct {
	Tokens, Turns int // of the longest
	None          quantiles
	Words         quantiles // filled word cache
	Turn          quantiles // earlier turns in the message cache, a new last one
	Keys, Choose  quantiles // what comes behind
	Whole         quantiles // with a filled word cache: text, keys, choice
	WholeTurn     quantiles // with the message cache
}

type quantiles struct{ P50, P99 time.Duration }

// chats are growing ones: each is the one before with one turn more.
func (m model) chats(tok *bpe.Tokenizer, n int) ([]string, error) {
	texts, err := corpus(prose)
	if err != nil {
		return nil, err
	}
	all := strings.Join(texts, "\n")
	r := rand.New(rand.NewPCG(1, 2))
	var b strings.Builder
	var out []string
	for turn := 0; len(out) < n; turn++ {
		role := []string{"user", "assistant"}[turn%2]
		if turn == 0 {
			role = "system"
		}
		at := r.IntN(len(all) - turnBytes)
		fmt.Fprintf(&b, m.turn, role)
		b.WriteString(strings.ToValidUTF8(all[at:at+turnBytes], ""))
		b.WriteString(m.end)
		if tokens, err := tok.Count(b.String(), bpe.Bare); err != nil {
			return nil, err
		} else if tokens >= promptTokens {
			out = append(out, b.String())
			if len(out) > 1 { // so that they stay near promptTokens: another last turn, not one more
				b.Reset()
				b.WriteString(out[0])
			}
		}
	}
	return out, nil
}

// decider is what stands behind the tokenizer.
type decider struct {
	keyer  tokens.Keyer
	policy policy.Policy
	ranks  []*workers.Rank
	keys   []index.Key
}

// Keys is policy.KeySource.
func (d *decider) Keys(policy.KeySpace) []index.Key { return d.keys }

// newDecider makes ranks of which each holds some first part of the prompt.
func newDecider(ids []uint32) (*decider, error) {
	d := &decider{}
	var err error
	if d.keyer, err = tokens.NewKeyer(tokens.Options{Scheme: index.SchemeSGLang, BlockSize: blockSize}); err != nil {
		return nil, err
	}
	if err := d.makeKeys(ids); err != nil {
		return nil, err
	}
	var fixed []workers.FixedWorker
	for i := range ranks {
		id := fmt.Sprintf("default/engine-%04d", i)
		fixed = append(fixed, workers.FixedWorker{ID: workers.ID(id), URL: &url.URL{Scheme: "http", Host: id}, Models: []string{"m"}})
	}
	registry, err := workers.NewFixed(workers.Options{}, fixed...)
	if err != nil {
		return nil, err
	}
	x := index.New(index.Options{Rand: rand.New(rand.NewPCG(1, 2)).Uint64})
	catalog := &policy.Catalog{Space: policy.KeySpace{Model: "m", Scheme: index.SchemeSGLang, BlockSize: blockSize}, Matcher: x}
	holdings := map[index.Rank]policy.Holding{}
	for i, l := range registry.Snapshot().Workers() {
		rank := l.Worker.Ranks()[0]
		d.ranks = append(d.ranks, rank)
		h, err := x.Rank(policy.IndexRank(rank))
		if err != nil {
			return nil, err
		}
		held := d.keys[:1+i*len(d.keys)/ranks]
		if n := x.Store(h, index.Root, held, index.Device); n != len(held) {
			return nil, fmt.Errorf("the index took %d of %d blocks", n, len(held))
		}
		holdings[h.Rank()] = policy.Holding{Catalog: catalog, Standing: policy.Steady{Trust: policy.Trusted, Life: 1}}
	}
	d.policy, err = policy.New(policy.NameCacheAware, policy.Options{Directory: policy.NewStatic(policy.NewView(holdings))})
	return d, err
}

func (d *decider) makeKeys(ids []uint32) (err error) {
	d.keys, err = d.keyer.Append(d.keys[:0], ids, tokens.Context{})
	return err
}

func (d *decider) choose(ids []uint32) error {
	if _, ok := d.policy.Pick(policy.Request{Model: "m", Key: uint64(len(ids)), PromptTokens: len(ids), Keys: d}, d.ranks); !ok {
		return errors.New("the policy chose nobody")
	}
	return nil
}

// prompt measures the steps alone and the whole way.
func (f *figures) prompt(m model, roundTime time.Duration) error {
	none, err := m.load(bpe.Options{WordCacheBytes: -1, MessageCacheBytes: -1})
	if err != nil {
		return err
	}
	words, err := m.load(bpe.Options{MessageCacheBytes: -1})
	if err != nil {
		return err
	}
	both, err := m.load(bpe.Options{})
	if err != nil {
		return err
	}
	chats, err := m.chats(none, 400)
	if err != nil {
		return err
	}
	ids, err := none.Encode(nil, chats[0], bpe.Bare)
	if err != nil {
		return err
	}
	d, err := newDecider(ids)
	if err != nil {
		return err
	}
	f.Prompt.Tokens, f.Prompt.Turns = len(ids), strings.Count(chats[0], strings.TrimSpace(m.end))
	encode := func(tok *bpe.Tokenizer) func(string) error {
		return func(chat string) (err error) {
			ids, err = tok.Encode(ids[:0], chat, bpe.Bare)
			return err
		}
	}
	keys := func(string) error { return d.makeKeys(ids) }
	choose := func(string) error { return d.choose(ids) }
	for _, c := range []struct {
		into  *quantiles
		steps []func(string) error
		chats []string // in turn
	}{
		{&f.Prompt.None, []func(string) error{encode(none)}, chats[:1]},
		{&f.Prompt.Words, []func(string) error{encode(words)}, chats[:1]},
		{&f.Prompt.Turn, []func(string) error{encode(both)}, chats},
		{&f.Prompt.Keys, []func(string) error{keys}, chats[:1]},
		{&f.Prompt.Choose, []func(string) error{choose}, chats[:1]},
		{&f.Prompt.Whole, []func(string) error{encode(words), keys, choose}, chats[:1]},
		{&f.Prompt.WholeTurn, []func(string) error{encode(both), keys, choose}, chats},
	} {
		if *c.into, err = times(c.chats, roundTime, c.steps); err != nil {
			return err
		}
	}
	return nil
}

// times runs the steps for a chat after the other, once unmeasured, until the time is over.
func times(chats []string, roundTime time.Duration, steps []func(string) error) (quantiles, error) {
	var all []time.Duration
	var total time.Duration
	for n := 0; len(all) == 0 || total < roundTime; n++ {
		began := clock.Spent()
		for _, step := range steps {
			if err := step(chats[n%len(chats)]); err != nil {
				return quantiles{}, err
			}
		}
		if took := clock.Spent() - began; n > 0 {
			all, total = append(all, took), total+took
		}
	}
	slices.Sort(all)
	return quantiles{all[len(all)/2], all[len(all)*99/100]}, nil
}
