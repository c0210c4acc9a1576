package main

import (
	"math/rand/v2"

	"github.com/routerfleet/routerfleet/router/index"
	"github.com/routerfleet/routerfleet/router/kvevents"
	wire "github.com/routerfleet/routerfleet/router/kvevents/kveventstest"
)

const (
	// sessionBlocks is the length of every chain. Batches store a part of one, so the pieces divide it.
	sessionBlocks = 256
	blockTokens   = 16
	vocabulary    = 150_000
)

// story is what one rank's engine says: it fills its cache with sessions and then stores one for each that it evicts,
// oldest first and leaf before root. The sessions are a ring with one more than fit, so the story goes on for ever, and
// a block comes again only long after it went.
type story struct {
	sessions []session
	piece    int // blocks stored in a batch, and as many removed
}

type session struct {
	hashes []wire.Hash
	chunks []index.Chunk
	tokens []uint32
}

// move is a part of a session.
type move struct{ session, from, to int }

// newStory gives a story of so many resident blocks, told in batches that store piece blocks. Tokens are made only for
// stories that are encoded; decoded ones have their chunks.
func newStory(seed uint64, resident, piece int, tokens bool) *story {
	r := rand.New(rand.NewPCG(1, seed))
	s := &story{piece: piece, sessions: make([]session, max(1, resident/sessionBlocks)+1)}
	for i := range s.sessions {
		n := &s.sessions[i]
		for range sessionBlocks {
			n.hashes = append(n.hashes, r.Uint64())
			n.chunks = append(n.chunks, index.Chunk(r.Uint64()))
		}
		for range sessionBlocks * blockTokens {
			if tokens {
				n.tokens = append(n.tokens, r.Uint32N(vocabulary))
			}
		}
	}
	return s
}

func (s *story) pieces() int { return sessionBlocks / s.piece }

// resident is how many blocks the rank holds after the fill, and after each step.
func (s *story) resident() int { return (len(s.sessions) - 1) * sessionBlocks }

// fills is how many batches fill the cache; steps is the length of the ring.
func (s *story) fills() int { return (len(s.sessions) - 1) * s.pieces() }
func (s *story) steps() int { return len(s.sessions) * s.pieces() }

func (s *story) part(session, n int) move {
	return move{session % len(s.sessions), n * s.piece, (n + 1) * s.piece}
}

// fill is what batch n of the fill stores.
func (s *story) fill(n int) move { return s.part(n/s.pieces(), n%s.pieces()) }

// step is what batch n after the fill stores and removes.
func (s *story) step(n int) (in, out move) {
	oldest, p := n/s.pieces(), n%s.pieces()
	return s.part(oldest+len(s.sessions)-1, p), s.part(oldest, s.pieces()-1-p)
}

// parent is the block a part follows, nil at the root.
func (s *story) parent(m move) *wire.Hash {
	if m.from == 0 {
		return nil
	}
	return &s.sessions[m.session].hashes[m.from-1]
}

// leaving are the hashes of a part as an engine evicts them.
func (s *story) leaving(m move) []wire.Hash {
	out := make([]wire.Hash, 0, s.piece)
	for i := m.to - 1; i >= m.from; i-- {
		out = append(out, s.sessions[m.session].hashes[i])
	}
	return out
}

// said is a batch with its events, in one piece of memory.
type said struct {
	kvevents.Batch
	events  [2]kvevents.Event
	stored  kvevents.Stored
	removed kvevents.Removed
}

// batch gives batch n of the story as a decoder gives it, the fill first. It is written anew each time: the pump reads
// what another processor has just written, as behind a subscription, and not what has left every cache.
func (s *story) batch(n int, form kvevents.Form, chunks bool) *kvevents.Batch {
	b := &said{Batch: kvevents.Batch{Seq: int64(n), Time: kvevents.Stamp(n + 1), Rank: kvevents.NoRank, Hash: uint64(n + 1)}}
	hashes := make([]kvevents.Hash, 0, 2*s.piece)
	in, out := s.fill(n), move{}
	if n >= s.fills() {
		in, out = s.step(n - s.fills())
	}
	from := &s.sessions[in.session]
	for _, h := range from.hashes[in.from:in.to] {
		hashes = append(hashes, kvevents.Hash(h))
	}
	b.stored = kvevents.Stored{Hashes: hashes[:s.piece:s.piece], Tokens: s.piece * blockTokens, BlockSize: blockTokens,
		Group: kvevents.NoGroup, Form: form, Medium: kvevents.MediumGPU}
	if p := s.parent(in); p != nil {
		b.stored.Parent, b.stored.HasParent = kvevents.Hash(*p), true
	}
	if chunks {
		b.stored.Chunks = append([]index.Chunk(nil), from.chunks[in.from:in.to]...)
	}
	b.events[0] = &b.stored
	b.Events = b.events[:1:1]
	if n < s.fills() {
		return &b.Batch
	}
	for i := out.to - 1; i >= out.from; i-- {
		hashes = append(hashes, kvevents.Hash(s.sessions[out.session].hashes[i]))
	}
	b.removed = kvevents.Removed{Hashes: hashes[s.piece:], Group: kvevents.NoGroup, Form: form, Medium: kvevents.MediumGPU}
	b.events[1] = &b.removed
	b.Events = b.events[:]
	return &b.Batch
}

// encoded are a story's batches as an engine sends them: the fill, and one round of the ring.
func (s *story) encoded(d wire.Dialect) (fill, ring [][]byte) {
	for n := range s.fills() {
		fill = append(fill, d.Encode(wire.Batch{TS: firstStamp, Events: s.announce(d, s.fill(n))}))
	}
	for n := range s.steps() {
		in, out := s.step(n)
		events := append(s.announce(d, in), wire.Removed{Hashes: s.leaving(out), Medium: "GPU"})
		ring = append(ring, d.Encode(wire.Batch{TS: firstStamp, Events: events}))
	}
	return fill, ring
}

// announce is a part as the engines store it: SGLang page by page, vLLM at once.
func (s *story) announce(d wire.Dialect, m move) []wire.Event {
	width := s.piece
	if d.Hashes == wire.Int64 {
		width = 1
	}
	n := &s.sessions[m.session]
	var out []wire.Event
	for at := m.from; at < m.to; at += width {
		out = append(out, wire.Stored{Hashes: n.hashes[at : at+width], Parent: s.parent(move{m.session, at, at + width}),
			Tokens: n.tokens[at*blockTokens : (at+width)*blockTokens], BlockSize: blockTokens, Medium: "GPU"})
	}
	return out
}

// firstStamp is the time of every encoded batch, in seconds since the Unix epoch; a sender puts its own in its place.
const firstStamp = 1.7e9
