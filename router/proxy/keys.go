package proxy

import (
	"errors"
	"math"
	"sync"
	"sync/atomic"

	"github.com/routerfleet/routerfleet/router/policy"
	"github.com/routerfleet/routerfleet/router/tokens"
	"github.com/routerfleet/routerfleet/router/tokens/chain"
	"github.com/routerfleet/routerfleet/router/tokens/parity"
	"github.com/routerfleet/routerfleet/router/workers"
)

// KeyOptions say how block keys are made of prompts.
type KeyOptions struct {
	// Wanted tells whether some index could use keys now. It is called for each request and must not block. Default:
	// none ever can, and no prompt is read for keys.
	Wanted func() bool
	// Seed is the fleet's secret of the tokens scheme.
	Seed tokens.Seed
	// HashSeed is vLLM's PYTHONHASHSEED, of scheme vllm-sha256-cbor.
	HashSeed string

	// Readers lists who reads a model's prompts, by dialect; none while no index could use keys of that model. It is
	// called for each request and must not block. nil: keys are made of token ids only.
	Readers func(model string) []Reader
	// Chain finds the tokens of texts and chats. Required with Readers.
	Chain *chain.Chain
	// Parity hears how the tokens compare with what engines say; nil: nobody does.
	Parity *parity.Watch
}

// keyMaker makes the block keys of requests.
type keyMaker struct {
	opts    KeyOptions
	models  func() []workers.Model
	serving func(model string) []*workers.Rank
	metrics *metrics

	mu sync.Mutex // held to replace pools
	// pools has the keyers of each key space. The map is immutable.
	pools atomic.Pointer[map[policy.KeySpace]*keyerPool]
}

// keyerPool has keyers of one key space: each has buffers and is for one goroutine. err is why there are none.
type keyerPool struct {
	sync.Pool
	err error
}

func newKeyMaker(o KeyOptions, w Workers, m *metrics) *keyMaker {
	k := &keyMaker{opts: o, models: func() []workers.Model { return w.Snapshot().Models() }, metrics: m}
	k.serving = func(model string) []*workers.Rank { ranks, _ := w.Snapshot().Pool(model); return ranks }
	k.pools.Store(&map[policy.KeySpace]*keyerPool{})
	return k
}

// tokenIDs are the ids of one prompt. A nil one collects nothing.
type tokenIDs struct {
	list []uint32
	// bad is set by an id that is no token's, or one too many.
	bad bool
}

var idPool = sync.Pool{New: func() any { return &tokenIDs{} }}

// collector gives memory for a prompt's ids, nil when nobody could use them.
func (k *keyMaker) collector() *tokenIDs {
	if k.opts.Wanted == nil || !k.opts.Wanted() {
		return nil
	}
	return idPool.Get().(*tokenIDs)
}

func (t *tokenIDs) add(id uint64) {
	switch {
	case t == nil || t.bad:
	case id > math.MaxUint32 || len(t.list) == maxKeyedTokens:
		t.bad = true
	default:
		t.list = append(t.list, uint32(id))
	}
}

func (t *tokenIDs) free() {
	if t != nil && cap(t.list) <= keptTokens {
		t.list, t.bad = t.list[:0], false
		idPool.Put(t)
	}
}

// pool gives the keyers of a space.
func (k *keyMaker) pool(space policy.KeySpace) *keyerPool {
	if p := (*k.pools.Load())[space]; p != nil {
		return p
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	known := *k.pools.Load()
	if p := known[space]; p != nil {
		return p
	}
	next := map[policy.KeySpace]*keyerPool{}
	if len(known) < maxKeySpaces {
		for s, p := range known {
			next[s] = p
		}
	}
	p := k.newPool(space)
	next[space] = p
	k.pools.Store(&next)
	return p
}

func (k *keyMaker) newPool(space policy.KeySpace) *keyerPool {
	o := tokens.Options{
		Scheme: space.Scheme, BlockSize: space.BlockSize, Bigram: space.Bigram,
		HashSeed: k.opts.HashSeed, Model: space.Model, Seed: k.opts.Seed,
	}
	first, err := tokens.NewKeyer(o)
	p := &keyerPool{err: err}
	if err == nil {
		p.New = func() any { keyer, _ := tokens.NewKeyer(o); return keyer } // as valid as the first
		p.Put(first)
	}
	return p
}

// promptKeys are the block keys of one request's prompt, by key space. The zero value has none.
type promptKeys struct {
	maker *keyMaker
	call  *call
	route *route
	// quiet leaves a miss uncounted.
	quiet bool

	// readers are who reads the prompt, readings what became of it for each dialect (see read). tokens is how many it has,
	// 0 unless they were found; path how they were.
	readers  []Reader
	readings [dialects]reading
	tokens   int
	path     string
	chunks   []tokens.Key // see Approximate

	spaces []spaceKeys
	miss   missReason // the first there was
}

type spaceKeys struct {
	space policy.KeySpace
	keys  *[]tokens.Key // nil without
}

var _ policy.KeySource = (*promptKeys)(nil)

var keyPool = sync.Pool{New: func() any { return new([]tokens.Key) }}

// Keys gives the keys of the prompt's blocks in a space, none when they could not equal an engine's.
func (p *promptKeys) Keys(space policy.KeySpace) []tokens.Key {
	for _, s := range p.spaces {
		if s.space == space {
			return s.list()
		}
	}
	s := spaceKeys{space: space}
	reason := p.make(&s)
	if reason != missNone && p.miss == missNone {
		p.miss = reason
		if !p.quiet {
			p.maker.metrics.misses.WithLabelValues(reason.String()).Inc()
		}
	}
	p.spaces = append(p.spaces, s)
	return s.list()
}

func (s spaceKeys) list() []tokens.Key {
	if s.keys == nil {
		return nil
	}
	return *s.keys
}

// make computes the keys of a space.
func (p *promptKeys) make(s *spaceKeys) missReason {
	if reason := p.unkeyed(); reason != missNone {
		return reason
	}
	if p.call.ids == nil { // the first index appeared while the request was read
		return missNone
	}
	ids := p.call.ids
	if p.call.prompt.form != formTokens {
		r := &p.readings[dialectOf(s.space.Scheme)]
		if r.ids == nil {
			return p.unread(r.miss)
		}
		ids = r.ids
	}
	salt, ok := readSalt(p.call.salt)
	if !ok {
		return missUnreadable
	}
	keyers := p.maker.pool(s.space)
	if keyers.err != nil {
		return missScheme
	}
	keyer := keyers.Get().(tokens.Keyer)
	defer keyers.Put(keyer)
	into := keyPool.Get().(*[]tokens.Key)
	var err error
	*into, err = keyer.Append((*into)[:0], ids.list, tokens.Context{CacheSalt: salt, LoRA: p.maker.adapter(p.call.model)})
	if err != nil {
		keyPool.Put(into)
		if errors.Is(err, tokens.ErrNoKeys) {
			return missLoRA
		}
		return missScheme
	}
	s.keys = into
	return missNone
}

// unkeyed says why there are no keys, whatever the space.
func (p *promptKeys) unkeyed() missReason {
	c := p.call
	switch {
	case c.prompt.form == formBatch:
		return missBatch
	case c.prompt.form == formOther && !p.route.chat, c.ids != nil && c.ids.bad:
		return missUnreadable
	}
	return c.unkeyed
}

// unread says why there are no tokens of words.
func (p *promptKeys) unread(known missReason) missReason {
	switch {
	case known != missNone:
		return known
	case len(p.readers) > 0: // its engines came after the prompt was read
		return missNone
	case p.route.chat:
		return missChat
	}
	return missText
}

// readSalt reads a raw cache_salt. None and an empty one are the same.
func readSalt(raw []byte) (salt string, ok bool) {
	switch {
	case !asks(raw):
		return "", true
	case raw[0] != '"' || len(raw) > maxSaltBytes:
		return "", false
	}
	return unquote(raw), true
}

// adapter gives the name of the adapter a model is, empty for a model in its own right.
func (k *keyMaker) adapter(model string) string {
	for _, m := range k.models() {
		if m.ID == model || model == "" {
			if m.Parent != "" {
				return m.ID
			}
			return ""
		}
	}
	return ""
}

// release gives the memory back. Nothing may use the keys afterwards.
func (p *promptKeys) release() {
	for _, s := range p.spaces {
		if s.keys != nil && cap(*s.keys) <= keptKeys {
			keyPool.Put(s.keys)
		}
	}
	p.spaces = nil
	for i := range p.readings {
		p.readings[i].ids.free()
		p.readings[i].ids = nil
	}
}
