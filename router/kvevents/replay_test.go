package kvevents

import (
	"context"
	"encoding/hex"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/routerfleet/routerfleet/router/index"
	wire "github.com/routerfleet/routerfleet/router/kvevents/kveventstest"
	"github.com/routerfleet/routerfleet/router/zmtp"
)

// payload is a batch that removes one block, whose number is seq.
func payload(seq int64) []byte {
	return wire.SGLangMap.Encode(wire.Batch{TS: float64(seq), Events: []wire.Event{wire.Removed{Hashes: []wire.Hash{wire.Hash(seq)}}}})
}

// say answers with batches.
func say(q zmtp.Request, seqs ...int64) {
	for _, seq := range seqs {
		_ = q.Reply(nil, wire.SeqFrame(seq), payload(seq)) // fails when the client has had enough
	}
}

func finish(q zmtp.Request) { _ = q.Reply(nil, wire.EndSeqFrame(), nil) }

// ask replays from an engine that answers as told, in a bubble, and says how long it took.
func ask(t *testing.T, o ReplayOptions, answer func(context.Context, zmtp.Request)) (*ReplayResult, time.Duration) {
	t.Helper()
	network := wire.NewNetwork()
	ctx, cancel := context.WithCancel(t.Context())
	var tasks sync.WaitGroup
	l := network.Listen("engine:5600")
	tasks.Go(func() { _ = zmtp.NewRouter(zmtp.Options{HeartbeatInterval: -1}, answer).Serve(ctx, l) })
	o.Address, o.ZMTP.Dial = "engine:5600", network.Dial
	began := time.Now()
	r := Replay(t.Context(), o)
	took := time.Since(began)
	cancel()
	tasks.Wait()
	return r, took
}

func seqs(r *ReplayResult) []int64 {
	out := make([]int64, 0, len(r.Batches))
	for _, b := range r.Batches {
		out = append(out, b.Seq)
	}
	return out
}

func TestAReplayAsksAsEnginesExpect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got []string
		r, _ := ask(t, ReplayOptions{Start: 0x0102}, func(_ context.Context, q zmtp.Request) {
			for _, p := range q.Parts {
				got = append(got, hex.EncodeToString(p))
			}
			finish(q)
		})
		if want := []string{"", "0000000000000102"}; !slices.Equal(got, want) {
			t.Errorf("asked with %q, want %q", got, want)
		}
		if r.Ending != Complete || r.Err != nil || len(r.Batches) != 0 || !r.Dense || r.Start != 0x0102 {
			t.Errorf("an empty replay: %+v", r)
		}
	})
}

func TestBothDialectsOfReplayAreUnderstood(t *testing.T) {
	for _, topic := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			budget := NewBudget(0)
			r, _ := ask(t, ReplayOptions{Start: 5, Budget: budget}, func(_ context.Context, q zmtp.Request) {
				for seq := int64(5); seq < 8; seq++ {
					if topic {
						_ = q.Reply(nil, []byte("kv"), wire.SeqFrame(seq), payload(seq))
					} else {
						say(q, seq)
					}
				}
				if topic {
					_ = q.Reply(nil, []byte("kv"), wire.EndSeqFrame(), nil)
				} else {
					finish(q)
				}
			})
			if r.Ending != Complete || !r.Dense || r.Untrusted || !slices.Equal(seqs(r), []int64{5, 6, 7}) || !r.Covers(7) || r.Covers(8) {
				t.Fatalf("topic %v: %+v", topic, r)
			}
			if b := r.Batches[2]; b.Time != 7_000_000_000 || b.Events[0].(*Removed).Hashes[0] != 7 {
				t.Errorf("topic %v: %s", topic, told(b.Batch))
			}
			if r.Bytes == 0 || budget.Used() != r.Bytes {
				t.Errorf("topic %v: %d bytes, %d of the budget", topic, r.Bytes, budget.Used())
			}
			r.Release()
			if budget.Used() != 0 {
				t.Errorf("topic %v: %d bytes of the budget are lost", topic, budget.Used())
			}
		})
	}
}

func TestHowAReplayEndsIsTold(t *testing.T) {
	forever := func(each time.Duration) func(context.Context, zmtp.Request) {
		return func(ctx context.Context, q zmtp.Request) {
			for seq := int64(0); ctx.Err() == nil; seq++ {
				if q.Reply(nil, wire.SeqFrame(seq), payload(seq)) != nil {
					return
				}
				if each > 0 {
					<-time.After(each)
				}
			}
		}
	}
	cases := []struct {
		name   string
		opt    ReplayOptions
		answer func(context.Context, zmtp.Request)
		ending Ending
		got    int
		took   time.Duration
	}{
		{"silence from the start", ReplayOptions{}, func(context.Context, zmtp.Request) {}, TimedOut, 0, 2 * time.Second},
		{"silence after two", ReplayOptions{}, func(_ context.Context, q zmtp.Request) { <-time.After(time.Second); say(q, 0, 1) }, TimedOut, 2, 3 * time.Second},
		{"a slow engine", ReplayOptions{}, forever(1900 * time.Millisecond), TimedOut, 6, 10 * time.Second},
		{"a talker", ReplayOptions{}, forever(0), Torn, DefaultReplayBatches, 0},
		{"a talker beyond our bytes", ReplayOptions{MaxBytes: 4096}, forever(0), Torn, 0, 0},
		{"a talker beyond the budget", ReplayOptions{Budget: NewBudget(4096)}, forever(0), Torn, 0, 0},
		{"an answer of two frames", ReplayOptions{}, func(_ context.Context, q zmtp.Request) { say(q, 0); _ = q.Reply(nil, wire.EndSeqFrame()) }, Torn, 1, 0},
		{"an answer of five frames", ReplayOptions{}, func(_ context.Context, q zmtp.Request) { _ = q.Reply(nil, nil, nil, wire.EndSeqFrame(), nil) }, Torn, 0, 0},
		{"no delimiter", ReplayOptions{}, func(_ context.Context, q zmtp.Request) { _ = q.Reply([]byte("x"), wire.EndSeqFrame(), nil) }, Torn, 0, 0},
		{"a short seq", ReplayOptions{}, func(_ context.Context, q zmtp.Request) { _ = q.Reply(nil, []byte{1}, payload(1)) }, Torn, 0, 0},
		{"a negative seq", ReplayOptions{}, func(_ context.Context, q zmtp.Request) { _ = q.Reply(nil, wire.SeqFrame(-2), payload(1)) }, Torn, 0, 0},
		{"a start before any batch", ReplayOptions{Start: -1}, func(context.Context, zmtp.Request) {}, Torn, 0, 0},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				budget := c.opt.Budget
				if budget != nil {
					c.opt.Budget = NewBudget(budget.Limit()) // one of this bubble
				}
				r, took := ask(t, c.opt, c.answer)
				if r.Ending != c.ending || r.Err == nil || took != c.took || c.got > 0 && len(r.Batches) != c.got {
					t.Errorf("%s after %v with %d batches: %v; want %s after %v with %d", r.Ending, took, len(r.Batches), r.Err, c.ending, c.took, c.got)
				}
				if r.Covers(0) {
					t.Error("it covers something")
				}
				r.Release()
				if c.opt.Budget != nil && c.opt.Budget.Used() != 0 {
					t.Errorf("%d bytes of the budget are lost", c.opt.Budget.Used())
				}
			})
		})
	}
}

func TestAConnectionThatBreaksTearsTheReplay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		network := wire.NewNetwork()
		l := network.Listen("engine:5600")
		ctx, kill := context.WithCancel(t.Context())
		var tasks sync.WaitGroup
		tasks.Go(func() {
			_ = zmtp.NewRouter(zmtp.Options{}, func(_ context.Context, q zmtp.Request) {
				say(q, 3, 4)
				kill()
			}).Serve(ctx, l)
		})
		r := Replay(t.Context(), ReplayOptions{Address: "engine:5600", Start: 3, ZMTP: zmtp.Options{Dial: network.Dial}})
		tasks.Wait()
		if r.Ending != Torn || !slices.Equal(seqs(r), []int64{3, 4}) || r.Covers(4) {
			t.Errorf("got %s, %v: %v", r.Ending, seqs(r), r.Err)
		}
		r.Release()
		if r := Replay(t.Context(), ReplayOptions{Address: "engine:5600", ZMTP: zmtp.Options{Dial: network.Dial}}); r.Ending != Torn || r.Err == nil {
			t.Errorf("nobody listens: %s, %v", r.Ending, r.Err)
		}
	})
}

func TestACallerMayGiveUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		network := wire.NewNetwork()
		network.Listen("engine:5600") // accepts nobody
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		r := Replay(ctx, ReplayOptions{Address: "engine:5600", ZMTP: zmtp.Options{Dial: network.Dial}})
		if r.Ending != Cancelled || r.Err == nil {
			t.Errorf("%s, %v", r.Ending, r.Err)
		}
	})
}

func TestWhatIsOutOfOrderIsNotDense(t *testing.T) {
	for _, c := range []struct {
		name    string
		said    []int64
		got     []int64
		dense   bool
		dropped int
		covers  bool
	}{
		{"dense", []int64{5, 6, 7}, []int64{5, 6, 7}, true, 0, true},
		{"a hole", []int64{5, 7}, []int64{5, 7}, false, 0, false},
		{"a repetition", []int64{5, 6, 6, 7}, []int64{5, 6, 7}, false, 1, false},
		{"reordered", []int64{5, 7, 6}, []int64{5, 7}, false, 1, false},
		{"from before the start", []int64{3, 4, 5, 6, 7}, []int64{5, 6, 7}, true, 2, true},
		{"from beyond the start", []int64{6, 7}, []int64{6, 7}, true, 0, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			r, _ := ask(t, ReplayOptions{Start: 5}, func(_ context.Context, q zmtp.Request) { say(q, c.said...); finish(q) })
			if r.Ending != Complete || !slices.Equal(seqs(r), c.got) || r.Dense != c.dense || r.Dropped != c.dropped || r.Covers(7) != c.covers {
				t.Errorf("%s: %s, %v, dense %v, dropped %d, covers %v", c.name, r.Ending, seqs(r), r.Dense, r.Dropped, r.Covers(7))
			}
			r.Release()
		})
	}
}

func TestABatchThatDoesNotDecodeLeavesTheReplayUntrusted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, _ := ask(t, ReplayOptions{Decoder: DecoderOptions{Scheme: index.SchemeTokens}}, func(_ context.Context, q zmtp.Request) {
			_ = q.Reply(nil, wire.SeqFrame(0), []byte("garbage"))
			finish(q)
		})
		if r.Ending != Complete || !r.Untrusted || !r.Dense || len(r.Batches) != 1 {
			t.Errorf("got %+v", r)
		}
		r.Release()
	})
}
