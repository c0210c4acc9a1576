package app

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/routerfleet/routerfleet/router/index"
	"github.com/routerfleet/routerfleet/router/ingest"
	"github.com/routerfleet/routerfleet/router/kvevents"
	"github.com/routerfleet/routerfleet/router/policy"
)

// silentLink is an engine that answers nothing.
type silentLink struct{}

func (silentLink) Redial(uint64) {}
func (silentLink) Replay(_ context.Context, from int64) *kvevents.ReplayResult {
	return &kvevents.ReplayResult{Start: from, Ending: kvevents.Torn}
}
func (silentLink) Start(context.Context) ingest.Start { return ingest.Start{Known: true} }

func stored(block uint64) *kvevents.Batch {
	return &kvevents.Batch{Events: []kvevents.Event{&kvevents.Stored{
		Hashes: []kvevents.Hash{kvevents.Hash(block)}, BlockSize: 4, Group: kvevents.NoGroup, Form: kvevents.IntegerForm, Medium: kvevents.MediumGPU, Tokens: 4,
	}}}
}

// Rosters are kept by the view's pointer: another one for the same ranks would have every request resolve them anew.
func TestTheDirectoryIsTheSameUntilARankComesOrGoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pump, err := ingest.New(ingest.Options{})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- pump.Run(ctx) }()
		d := NewDirectory(pump, index.Contiguous)
		empty := d.View()
		if empty != d.View() {
			t.Error("another view without a change")
		}
		section := ingest.SectionKey{Model: "m", Scheme: index.SchemeSGLang, BlockSize: 4, Bigram: true}
		register := func(worker string) index.Rank {
			rank := index.Rank{Worker: worker}
			if err := pump.Register(ctx, ingest.Registration{Rank: rank, Worker: worker, Section: section, Link: silentLink{}}); err != nil {
				t.Fatal(err)
			}
			return rank
		}
		a, b := register("a"), register("b")
		v := d.View()
		if v == empty || v != d.View() {
			t.Error("the view does not follow the ranks")
		}
		ha, _ := v.Of(a)
		hb, ok := v.Of(b)
		if !ok || ha.Catalog != hb.Catalog || ha.Catalog.Mode != index.Contiguous ||
			ha.Catalog.Space != (policy.KeySpace{Model: "m", Scheme: index.SchemeSGLang, BlockSize: 4, Bigram: true}) {
			t.Errorf("holdings %+v and %+v", ha, hb)
		}

		lane := pump.Inbox().Lane(a)
		say := func(ds ...kvevents.Delivery) {
			for _, one := range ds {
				if err := lane.Deliver(ctx, one); err != nil {
					t.Fatal(err)
				}
			}
			synctest.Wait()
		}
		first, after := stored(1), stored(2)
		after.Seq = 9
		say(kvevents.Delivery{Epoch: 1, Kind: kvevents.Opened}, kvevents.Delivery{Epoch: 1, Kind: kvevents.Arrived, Batch: first})
		if trust, life := ha.Standing.Standing(); trust != policy.Trusted || life == 0 {
			t.Errorf("of a whole stream: %v, life %d", trust, life)
		}
		say(kvevents.Delivery{Epoch: 1, Kind: kvevents.Arrived, Batch: after})
		if trust, _ := ha.Standing.Standing(); trust != policy.Untrusted {
			t.Errorf("of a stream with a hole: %v", trust)
		}
		if trust, _ := hb.Standing.Standing(); trust != policy.Trusted {
			t.Errorf("of the other: %v", trust)
		}
		if v != d.View() {
			t.Error("another view because of an event")
		}
		if err := pump.Resize(ctx, b, 4096); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if h, _ := d.View().Of(b); d.View() == v || h.CapacityTokens != 4096 || h.Catalog == nil {
			t.Errorf("of an engine of 4096 tokens: %+v", h)
		}
		if err := pump.Forget(ctx, a); err != nil {
			t.Fatal(err)
		}
		if _, ok := d.View().Of(a); ok {
			t.Error("a forgotten rank is in the view")
		}
		lane.Close()
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}
