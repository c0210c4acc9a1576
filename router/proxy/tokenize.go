package proxy

import (
	"context"
	"slices"
	"time"

	"github.com/zeebo/xxh3"

	"github.com/routerfleet/routerfleet/router/policy"
	"github.com/routerfleet/routerfleet/router/tokens"
	"github.com/routerfleet/routerfleet/router/tokens/chain"
	"github.com/routerfleet/routerfleet/router/tokens/chat"
	"github.com/routerfleet/routerfleet/router/tokens/parity"
	"github.com/routerfleet/routerfleet/router/tokens/remote"
	"github.com/routerfleet/routerfleet/router/workers"
)

// Reader is the engines that read a model's prompts in one way and whose blocks are in an index.
type Reader struct {
	Dialect chat.Dialect
	Engines []parity.Engine
}

// Values of the label path of tokenization_total.
const (
	pathTokenIDs    = "token_ids"   // the prompt is token ids
	pathOwn         = "own"         // the model's own files
	pathEngine      = "engine"      // an engine told
	pathApproximate = "approximate" // nobody knows: the text decides
	pathNone        = "none"        // nothing is made of the prompt
)

// dialects is how many ways there are to read a request.
const dialects = 2

// reading is what became of the prompt for engines of one dialect.
type reading struct {
	ids  *tokenIDs // nil without tokens
	path chain.Path
	miss missReason
	// shadow is how many tokens the model's own files make of it while they are not used, 0: not counted.
	shadow int
	asked  remote.Prompt
	// told is the question of which the tokens of path Engine are the answer.
	told remote.Prompt
}

// read finds the tokens of a prompt that is text or chat, for each dialect in which engines that could use the keys read
// it. It is called once, before the first choice; the longest it takes is the engines' deadline. Exact tokens make the
// prompt's size exact.
func (p *promptKeys) read(ctx context.Context, day time.Time) {
	k, c := p.maker, p.call
	if k.opts.Readers == nil || c.ids == nil {
		return
	}
	base, adapter := k.base(c.model)
	if p.readers = k.opts.Readers(base); len(p.readers) == 0 {
		return
	}
	path := pathNone
	switch {
	case c.prompt.form == formTokens && !c.ids.bad:
		path = pathTokenIDs
	case p.unkeyed() == missNone && p.worded():
		for _, reader := range p.readers {
			p.readings[reader.Dialect] = p.readFor(ctx, reader, base, adapter, day)
		}
		path = p.pathOf()
	}
	p.path = path
	if !p.quiet {
		k.metrics.paths.WithLabelValues(path).Inc()
	}
}

// worded says that the prompt is words, not tokens.
func (p *promptKeys) worded() bool {
	return p.call.prompt.form == formText || p.call.prompt.form == formOther && p.route.chat
}

// pathOf names the way of the first reading that has tokens.
func (p *promptKeys) pathOf() string {
	for _, reader := range p.readers {
		if r := p.readings[reader.Dialect]; r.ids != nil {
			if p.tokens == 0 {
				p.tokens = len(r.ids.list)
			}
			if r.path == chain.Own {
				return pathOwn
			}
			return pathEngine
		}
	}
	if p.guessable() {
		return pathApproximate
	}
	return pathNone
}

func (p *promptKeys) readFor(ctx context.Context, reader Reader, base, adapter string, day time.Time) reading {
	if adapter != "" && reader.Dialect == chat.SGLang {
		return reading{miss: missLoRA} // its hashes do not tell adapters apart
	}
	request, miss := p.request(reader, base, adapter, day)
	if miss != missNone {
		return reading{miss: miss}
	}
	r := reading{asked: remote.Prompt{Model: request.Served, Text: request.Text, Bare: request.Bare, Chat: request.Chat}}
	var told remote.Prompt
	request.Asked = &told
	ids := idPool.Get().(*tokenIDs)
	var why chain.Reason
	ids.list, r.path, why = p.maker.opts.Chain.Tokens(ctx, ids.list[:0], request)
	switch {
	case r.path == chain.None:
		r.miss = missOf(why, p.route.chat)
		ids.free()
	case len(ids.list) == 0 || len(ids.list) > maxKeyedTokens:
		r.path, r.miss = chain.None, missTooLong
		ids.free()
	default:
		r.ids, r.told = ids, told
	}
	if r.path != chain.Own && p.maker.opts.Parity != nil && (why == chain.Distrusted || r.path == chain.Engine) {
		r.shadow = p.maker.shadow(ctx, request)
	}
	return r
}

// shadow counts the tokens that files make which are not used now: so it shows when they are right again.
func (k *keyMaker) shadow(ctx context.Context, r chain.Request) int {
	ids := idPool.Get().(*tokenIDs)
	defer ids.free()
	var err error
	if ids.list, err = k.opts.Chain.Own(ctx, ids.list[:0], r); err != nil {
		return 0
	}
	return len(ids.list)
}

// request is the prompt as the engines of a reader get it.
func (p *promptKeys) request(reader Reader, base, adapter string, day time.Time) (chain.Request, missReason) {
	c := p.call
	r := chain.Request{Model: base, Served: c.model, Dialect: reader.Dialect, Day: day, Kind: p.kind()}
	if r.Served == "" {
		r.Served = base
	}
	if p.route.chat {
		r.Chat = c.body
	} else {
		text, err := chat.DecodeText(c.quoted())
		if err != nil {
			return r, missUnreadable
		}
		r.Text, r.Bare = text, c.bare && reader.Dialect == chat.VLLM
	}
	if len(reader.Engines) > 0 {
		r.Model = reader.Engines[0].Model // by its first name, if it has several
		r.Engine = func() (remote.Engine, bool) { return p.teller(reader.Engines, adapter) }
	}
	return r, missNone
}

// teller chooses whom to ask: of an adapter's prompts one that has it, for others do not know the model.
func (p *promptKeys) teller(engines []parity.Engine, adapter string) (remote.Engine, bool) {
	if adapter != "" {
		engines = among(engines, p.maker.serving(adapter))
	}
	if len(engines) == 0 {
		return remote.Engine{}, false
	}
	return engines[p.call.prompt.key%uint64(len(engines))].Engine, true
}

// among gives the engines that some rank is of.
func among(engines []parity.Engine, ranks []*workers.Rank) []parity.Engine {
	listed := make(map[string]bool, len(ranks))
	for _, r := range ranks {
		listed[policy.IndexRank(r).Worker] = true
	}
	var list []parity.Engine
	for _, e := range engines {
		if listed[e.ID] {
			list = append(list, e)
		}
	}
	return list
}

// quoted is the text of a prompt that is one.
func (c *call) quoted() (text []byte) {
	if len(c.written) > 0 && c.written[0] == '[' {
		elements(c.written, func(element []byte) bool { text = element; return false })
		return text
	}
	return c.written
}

func (p *promptKeys) kind() parity.Kind {
	switch {
	case !p.route.chat:
		return parity.Text
	case p.call.tools:
		return parity.Tools
	}
	return parity.Chat
}

// missOf is a chain's reason as it is counted.
func missOf(r chain.Reason, isChat bool) missReason {
	switch r {
	case chain.Distrusted:
		return missParity
	case chain.Unanswered:
		return missEngine
	case chain.Refused:
		return missRefused
	case chain.Media:
		return missMedia
	case chain.Options:
		return missOptions
	case chain.TooLong:
		return missTooLong
	case chain.Unreadable:
		return missUnreadable
	case chain.Busy:
		return missBusy
	}
	if isChat {
		return missChat
	}
	return missText
}

// dialectOf is how engines read requests whose blocks are hashed by a scheme: SGLang has one of its own, and all others
// are vLLM's.
func dialectOf(s tokens.Scheme) chat.Dialect {
	if s == tokens.SchemeSGLang {
		return chat.SGLang
	}
	return chat.VLLM
}

// Approximation goes by chunks of the prompt as it was written.
const (
	chunkBytes  = 512
	chunkTokens = chunkBytes / bytesPerToken
	// maxChunks bounds the keys of one prompt: 1 MiB of text.
	maxChunks = 2048
)

var _ policy.ApproximateSource = (*promptKeys)(nil)

// guessable says whether the text may stand for the keys that nobody knows: where nothing but the way to tokens is missing.
func (p *promptKeys) guessable() bool {
	if len(p.readers) == 0 || !p.worded() || p.unkeyed() != missNone {
		return false
	}
	for _, reader := range p.readers {
		switch p.readings[reader.Dialect].miss {
		case missText, missChat, missParity, missEngine, missTooLong, missBusy:
		default:
			return false
		}
	}
	return true
}

// Approximate gives keys of the text itself, none where it has others or must not be guessed at.
func (p *promptKeys) Approximate() ([]tokens.Key, int) {
	if !p.guessable() {
		return nil, 0
	}
	if p.chunks == nil {
		p.chunks = textChunks(p.call)
	}
	return p.chunks, chunkTokens
}

// textChunks chains the hashes of whole chunks. Model, salt and tools come before the text in what the engine sees.
func textChunks(c *call) []tokens.Key {
	root := xxh3.New()
	for _, part := range [][]byte{[]byte(c.model), c.salt, c.toolsValue} {
		_, _ = root.Write(part) // xxh3 documents that Write never fails.
		_, _ = root.Write([]byte{0})
	}
	key := tokens.Key(root.Sum64())
	text := c.written
	keys := make([]tokens.Key, 0, min(len(text)/chunkBytes, maxChunks))
	for ; len(text) >= chunkBytes && len(keys) < maxChunks; text = text[chunkBytes:] {
		key = key.Next(tokens.Chunk(xxh3.Hash(text[:chunkBytes])))
		keys = append(keys, key)
	}
	return keys
}

// compare holds what an answer says of its prompt against the tokens that were used, and against the router's own.
func (p *promptKeys) compare(rank string, u Usage, told *tokenIDs) {
	if !u.Known {
		return
	}
	if told != nil && told.bad {
		told = nil
	}
	for _, reader := range p.readers {
		for _, e := range reader.Engines {
			if e.ID != rank {
				continue
			}
			r := &p.readings[reader.Dialect]
			if r.path == chain.Engine {
				p.compareTold(e, r, u, told)
			}
			p.compareOwn(e, r, u, told)
			return
		}
	}
}

// compareTold tells whom engines are asked through whether they told right.
func (p *promptKeys) compareTold(e parity.Engine, r *reading, u Usage, told *tokenIDs) {
	right := len(r.ids.list) == u.Prompt
	if told != nil {
		right = slices.Equal(r.ids.list, told.list)
	}
	p.maker.opts.Chain.Asker.Heard(e.Dialect, r.told, r.ids.list, right)
}

// compareOwn tells parity of the router's own tokens, used or not.
func (p *promptKeys) compareOwn(e parity.Engine, r *reading, u Usage, told *tokenIDs) {
	watch := p.maker.opts.Parity
	switch {
	case watch == nil:
	case r.path != chain.Own:
		if r.shadow > 0 {
			watch.Counted(e, p.kind(), r.shadow, u.Prompt)
		}
	case told != nil:
		watch.Told(e, p.kind(), r.ids.list, told.list)
	default:
		watch.Counted(e, p.kind(), len(r.ids.list), u.Prompt)
		watch.Sample(e, p.kind(), r.asked, r.ids.list)
	}
}

// base gives the model whose blocks a request's are: that of an adapter, which is named too.
func (k *keyMaker) base(model string) (base, adapter string) {
	for _, m := range k.models() {
		if m.ID == model || model == "" && m.Parent == "" {
			if m.Parent != "" {
				return m.Parent, m.ID
			}
			return m.ID, ""
		}
	}
	return model, ""
}
