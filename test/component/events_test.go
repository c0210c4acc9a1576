package component

import (
	"context"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/routerfleet/routerfleet/router/index"
	"github.com/routerfleet/routerfleet/router/ingest"
	"github.com/routerfleet/routerfleet/router/kvevents"
	wire "github.com/routerfleet/routerfleet/router/kvevents/kveventstest"
	"github.com/routerfleet/routerfleet/router/zmtp"
	"github.com/routerfleet/routerfleet/test/data/streams"
)

// streamBlock is the block size of the recorded stream's engines here, in tokens.
const streamBlock = 4

// streamHash is how an engine calls a block of the recorded stream.
func streamHash(id uint64) wire.Hash { return (id + 1) * 0x9e3779b97f4a7c15 }

// streamTokens are a block's tokens: equal ids are equal blocks behind equal prefixes.
func streamTokens(out []uint32, id uint64) []uint32 {
	for i := range uint64(streamBlock) {
		out = append(out, uint32(streamBlock*id+i))
	}
	return out
}

func streamEvent(l streams.Line) wire.Event {
	if l.Stored == nil {
		r := wire.Removed{Medium: "GPU"}
		for _, id := range l.Removed {
			r.Hashes = append(r.Hashes, streamHash(id))
		}
		return r
	}
	s := wire.Stored{BlockSize: streamBlock, Medium: "GPU"}
	if p := l.Stored.Parent; p != nil {
		h := streamHash(*p)
		s.Parent = &h
	}
	for _, id := range l.Stored.Blocks {
		s.Hashes = append(s.Hashes, streamHash(id))
		s.Tokens = streamTokens(s.Tokens, id)
	}
	return s
}

// streamEngine publishes one engine's part of the stream on loopback.
type streamEngine struct {
	engine ingest.Engine
	info   kvevents.ServerInfo
	pub    *zmtp.Pub
	said   int64
}

// streamEngines are the engines as a feed knows them.
type streamEngines []*streamEngine

// Engines lists them.
func (s streamEngines) Engines() (out []ingest.Engine) {
	for _, e := range s {
		out = append(out, e.engine)
	}
	return out
}

// Changed never happens.
func (s streamEngines) Changed() <-chan struct{} { return nil }

// Introspect answers for an engine.
func (s streamEngines) Introspect(_ context.Context, e ingest.Engine) (ingest.Facts, error) {
	for _, known := range s {
		if known.engine.ID == e.ID {
			return ingest.Facts{Info: known.info, Start: ingest.Start{Known: true, ID: "1"}}, nil
		}
	}
	return ingest.Facts{}, fmt.Errorf("no engine %s", e.ID)
}

func bootStreamEngines(t *testing.T, dialect wire.Dialect, advertises bool) streamEngines {
	ctx, cancel := context.WithCancel(context.Background())
	var tasks sync.WaitGroup
	t.Cleanup(func() { cancel(); tasks.Wait() })
	var out streamEngines
	for i := range streams.Engines {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		port := int64(l.Addr().(*net.TCPAddr).Port)
		e := &streamEngine{pub: zmtp.NewPub(zmtp.PubOptions{})}
		tasks.Go(func() { _ = e.pub.Serve(ctx, l) }) // ends with ctx, whose cause it returns
		e.engine = ingest.Engine{ID: fmt.Sprint("engine-", i), Name: fmt.Sprint("ns/engine-", i), Host: "127.0.0.1", Model: "m"}
		size, ranks := int64(streamBlock), int64(1)
		if advertises {
			e.info.Events = &kvevents.Advertised{Publisher: "zmq", EndpointHost: "*", EndpointPort: &port, BlockSize: &size, DPSize: &ranks}
		} else {
			e.engine.Configured = kvevents.Configured{Port: port, BlockSize: size}
		}
		out = append(out, e)
	}
	return out
}

// rank is an engine's only rank.
func (e *streamEngine) rank() index.Rank { return index.Rank{Worker: e.engine.ID} }

// streamKeys is what the request side asks for.
func streamKeys(s *ingest.Section, ids []uint64) (keys []index.Key) {
	key := s.Root("")
	for _, id := range ids {
		if s.Key.Scheme != index.SchemeTokens {
			keys = append(keys, index.Key(streamHash(id)))
			continue
		}
		var block []byte
		for _, t := range streamTokens(nil, id) {
			block = index.AppendToken(block, t)
		}
		key = key.Next(s.Seed.Chunk(block))
		keys = append(keys, key)
	}
	return keys
}

// The recorded stream as MessagePack over ZMTP over TCP, in every dialect engines speak: every query is answered as
// expected.
func TestTheRecordedStreamOverTheWireInEveryDialect(t *testing.T) {
	lines, err := streams.Conversation()
	if err != nil {
		t.Fatal(err)
	}
	for _, dialect := range wire.Dialects {
		sglang := dialect.Hashes == wire.Int64
		for _, vllmHash := range []bool{false, true} {
			if sglang && vllmHash {
				continue
			}
			t.Run(fmt.Sprintf("%s/vllmHash=%v", dialect.Name, vllmHash), func(t *testing.T) {
				playStream(t, lines, dialect, sglang, vllmHash)
			})
		}
	}
}

func playStream(t *testing.T, lines []streams.Line, dialect wire.Dialect, advertises, vllmHash bool) {
	engines := bootStreamEngines(t, dialect, advertises)
	pump := startFeed(t, engines, vllmHash)
	for _, e := range engines {
		eventually(t, "the publisher has its subscriber", func() bool { return e.pub.Subscriptions() == 1 })
	}
	var r index.Result
	for i, l := range lines {
		if l.Query == nil {
			e := engines[l.Engine]
			e.pub.Publish(nil, wire.SeqFrame(l.Seq), dialect.Encode(wire.Batch{TS: 1000 + float64(l.Seq), Events: []wire.Event{streamEvent(l)}}))
			e.said = l.Seq
			continue
		}
		for n, e := range engines {
			eventually(t, "everything said is applied", func() bool { return pump.View().Rank(e.rank()).Status().Cursor.Seq == e.said })
			section := pump.View().Rank(e.rank()).Section
			section.Index.Match(streamKeys(section, l.Query), index.Deepest, index.DefaultWeights, &r)
			if got, _ := r.Of(e.rank()); int(got) != l.Expect[n] {
				t.Fatalf("line %d, engine %d: depth %d, want %d", i+1, n, got, l.Expect[n])
			}
		}
	}
	for _, e := range engines {
		if s := pump.View().Rank(e.rank()).Status(); s.Cursor.Proof != ingest.Origin || s.Trust != (ingest.Trust{}) || s.Tally.Gaps != 0 {
			t.Errorf("%s: %+v", e.engine.Name, s)
		}
	}
}

func startFeed(t *testing.T, engines streamEngines, vllmHash bool) *ingest.Pump {
	pump, err := ingest.New(ingest.Options{Seed: 42})
	if err != nil {
		t.Fatal(err)
	}
	feed, err := ingest.NewFeed(ingest.FeedOptions{Pump: pump, Engines: engines, Introspector: engines, VLLMHash: vllmHash})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var tasks sync.WaitGroup
	tasks.Go(func() {
		if err := pump.Run(ctx); err != nil {
			t.Errorf("pump: %v", err)
		}
	})
	tasks.Go(func() {
		if err := feed.Run(ctx); err != nil {
			t.Errorf("feed: %v", err)
		}
	})
	t.Cleanup(func() {
		began := time.Now()
		cancel()
		tasks.Wait()
		if took := time.Since(began); took > 10*time.Second {
			t.Errorf("the end took %v", took)
		}
	})
	eventually(t, "every engine is subscribed to", func() bool { return feed.Subscribed() == len(engines) })
	return pump
}
