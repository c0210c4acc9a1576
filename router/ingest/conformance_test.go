package ingest

import (
	"testing"
	"time"

	"github.com/routerfleet/routerfleet/router/index"
	"github.com/routerfleet/routerfleet/router/kvevents"
	"github.com/routerfleet/routerfleet/test/data/streams"
)

// streamBooks are the ledgers of a recorded stream's engines, in one section.
func streamBooks(t *testing.T, scheme index.Scheme) (books [streams.Engines]*book) {
	s := newTestSection(scheme, 4)
	for i := range books {
		r := index.Rank{Worker: string(rune('a' + i))}
		books[i] = &book{t, newLedger(s, r), time.Unix(1, 0)}
	}
	return books
}

// nameOfBlock is how an engine calls a block of the recorded stream.
func nameOfBlock(id uint64) kvevents.Hash { return kvevents.Hash((id + 1) * 0x9e3779b97f4a7c15) }

func eventOf(l streams.Line) kvevents.Event {
	if l.Stored == nil {
		r := &kvevents.Removed{Group: kvevents.NoGroup, Form: kvevents.IntegerForm, Medium: kvevents.MediumGPU}
		for _, id := range l.Removed {
			r.Hashes = append(r.Hashes, nameOfBlock(id))
		}
		return r
	}
	s := &kvevents.Stored{BlockSize: 4, Group: kvevents.NoGroup, Form: kvevents.IntegerForm, Medium: kvevents.MediumGPU, Tokens: 4}
	if p := l.Stored.Parent; p != nil {
		s.HasParent, s.Parent = true, nameOfBlock(*p)
	}
	for _, id := range l.Stored.Blocks {
		s.Hashes = append(s.Hashes, nameOfBlock(id))
		s.Chunks = append(s.Chunks, index.Chunk(id))
	}
	return s
}

// keysOfQuery is what the request side asks for.
func keysOfQuery(s *Section, ids []uint64) []index.Key {
	var keys []index.Key
	key := s.Root("")
	for _, id := range ids {
		if s.Key.Scheme == index.SchemeTokens {
			key = key.Next(index.Chunk(id))
		} else {
			key = nameOfBlock(id).Key()
		}
		keys = append(keys, key)
	}
	return keys
}

func TestTheRecordedStreamGivesEveryExpectedDepth(t *testing.T) {
	lines, err := streams.Conversation()
	if err != nil {
		t.Fatal(err)
	}
	for _, scheme := range allSchemes {
		t.Run(string(scheme), func(t *testing.T) {
			books := streamBooks(t, scheme)
			section := books[0].section
			var r index.Result
			for i, l := range lines {
				if l.Query == nil {
					books[l.Engine].events(eventOf(l))
					continue
				}
				for _, mode := range []index.Mode{index.Deepest, index.Contiguous} {
					section.Index.Match(keysOfQuery(section, l.Query), mode, index.DefaultWeights, &r)
					for e, want := range l.Expect {
						if got, _ := r.Of(books[e].rank); int(got) != want {
							t.Fatalf("line %d, engine %d, mode %d: depth %d, want %d", i+1, e, mode, got, want)
						}
					}
				}
			}
			for e, b := range books {
				if n := b.holder.Contradictions; n != 0 || b.suspect.is {
					t.Errorf("engine %d contradicts itself %d times", e, n)
				}
				if b.orphans != nil && len(b.orphans.byHash) != 0 {
					t.Errorf("engine %d has %d orphans", e, len(b.orphans.byHash))
				}
			}
		})
	}
}
