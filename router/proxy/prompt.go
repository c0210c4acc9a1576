package proxy

import (
	"bytes"
	"encoding/binary"
	"sync"

	"github.com/zeebo/xxh3"
)

// bytesPerToken estimates the tokens of a text prompt: English text is 4 bytes a token with the usual BPE
// vocabularies, code and other scripts less. It orders loads, it is never a limit.
const bytesPerToken = 4

// Seeds keep the key spaces of texts, token ids and other JSON apart. They are part of the key: every replica must
// use the same ones, or equal-cost ties are broken differently across the fleet.
const (
	seedText   = 1
	seedTokens = 2
	seedJSON   = 3
)

// prompt is what routing knows of a request's prompt.
type prompt struct {
	// key is equal for equal prompts, whatever the spacing between token ids. Of a batch it is the key of the longest
	// member, the first among equals: a batch is served by one engine, and its longest member gains most there.
	key uint64
	// tokens estimates the tokens of all members: exact for token ids, otherwise bytes/4.
	tokens int
	form   promptForm
}

// promptForm is how a prompt was given.
type promptForm uint8

const (
	formOther promptForm = iota // none, chat messages, or nothing the router understands
	formText
	formTokens // one list of token ids
	formBatch  // several prompts
)

// readPrompt derives the key and size of the raw JSON value of messages, prompt, text or input_ids. It never fails:
// what it does not understand is hashed as it is and left for the engine to judge. The ids of a prompt in formTokens are
// collected in ids, which may be nil.
func readPrompt(raw []byte, ids *tokenIDs) prompt {
	if len(raw) == 0 {
		return prompt{}
	}
	switch raw[0] {
	case '"':
		return textPrompt(raw)
	case '[':
		return arrayPrompt(raw, ids)
	}
	return jsonPrompt(raw)
}

func textPrompt(quoted []byte) prompt {
	text := quoted[1 : len(quoted)-1]
	return prompt{key: xxh3.HashSeed(text, seedText), tokens: textTokens(len(text)), form: formText}
}

func jsonPrompt(raw []byte) prompt {
	return prompt{key: xxh3.HashSeed(raw, seedJSON), tokens: textTokens(textBytes(raw))}
}

func textTokens(bytes int) int { return (bytes + bytesPerToken - 1) / bytesPerToken }

// arrayPrompt tells token ids, a batch of token ids, a batch of texts and chat messages apart by the first element.
func arrayPrompt(raw []byte, ids *tokenIDs) prompt {
	first := scanner{data: raw, pos: 1}
	first.space()
	switch c := first.peek(); {
	case c >= '0' && c <= '9':
		if p, ok := tokenPrompt(raw, ids); ok {
			return p
		}
	case c == '[' || c == '"':
		if p, ok := batchPrompt(raw, ids); ok {
			return p
		}
	}
	return jsonPrompt(raw)
}

// batchPrompt reads a batch of token-id arrays or of texts. ok is false for a mixture or anything else. A batch of one
// is that one.
func batchPrompt(raw []byte, ids *tokenIDs) (batch prompt, ok bool) {
	longest := -1
	ok = true
	elements(raw, func(element []byte) bool {
		var member prompt
		switch element[0] {
		case '"':
			member = textPrompt(element)
		case '[':
			member, ok = tokenPrompt(element, ids)
		default:
			ok = false
		}
		if !ok {
			return false
		}
		batch.form = member.form
		if longest >= 0 {
			batch.form = formBatch
		}
		ids = nil // of the first only
		if member.tokens > longest {
			longest, batch.key = member.tokens, member.key
		}
		batch.tokens += member.tokens
		return true
	})
	return batch, ok
}

// tokenHasher hashes token ids as 8 little-endian bytes each, through a small block so that a prompt of any length
// needs no buffer of its own.
type tokenHasher struct {
	hash  *xxh3.Hasher
	block [4096]byte
	used  int
}

var tokenHashers = sync.Pool{New: func() any { return &tokenHasher{hash: xxh3.NewSeed(seedTokens)} }}

func (h *tokenHasher) add(id uint64) {
	if h.used == len(h.block) {
		h.flush()
	}
	binary.LittleEndian.PutUint64(h.block[h.used:], id)
	h.used += 8
}

func (h *tokenHasher) flush() {
	_, _ = h.hash.Write(h.block[:h.used]) // xxh3 documents that Write never fails.
	h.used = 0
}

// tokenPrompt reads an array of token ids. ok is false when an element is not a plain non-negative integer that fits
// 63 bits.
func tokenPrompt(raw []byte, ids *tokenIDs) (p prompt, ok bool) {
	p.form = formTokens
	h := tokenHashers.Get().(*tokenHasher)
	defer tokenHashers.Put(h)
	h.hash.Reset()
	h.used = 0
	s := scanner{data: raw, pos: 1}
	for {
		s.space()
		if s.peek() == ']' {
			h.flush()
			p.key = h.hash.Sum64()
			return p, true
		}
		id, plain := s.tokenID()
		if !plain {
			return prompt{}, false
		}
		h.add(id)
		ids.add(id)
		p.tokens++
		s.space()
		if s.peek() == ',' {
			s.pos++
		}
	}
}

func (s *scanner) tokenID() (id uint64, plain bool) {
	start := s.pos
	for ; s.pos < len(s.data); s.pos++ {
		digit := s.data[s.pos] - '0'
		if digit > 9 {
			break
		}
		if id > (1<<63-10)/10 {
			return 0, false
		}
		id = id*10 + uint64(digit)
	}
	if s.pos == start {
		return 0, false
	}
	switch s.peek() {
	case ',', ']', ' ', '\t', '\n', '\r':
		return id, true
	}
	return 0, false
}

// textBytes counts the bytes of the string values in valid JSON: the part of chat messages that becomes tokens.
// Member names and inline media (data: URLs) do not.
func textBytes(raw []byte) int {
	total := 0
	s := scanner{data: raw}
	for s.pos < len(raw) {
		if raw[s.pos] != '"' {
			s.pos++
			continue
		}
		start := s.pos
		if s.str() != nil {
			return total
		}
		text := raw[start+1 : s.pos-1]
		s.space()
		if s.peek() != ':' && !bytes.HasPrefix(text, []byte("data:")) {
			total += len(text)
		}
	}
	return total
}
