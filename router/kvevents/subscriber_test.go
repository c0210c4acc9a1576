package kvevents

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/routerfleet/routerfleet/router/index"
	wire "github.com/routerfleet/routerfleet/router/kvevents/kveventstest"
	"github.com/routerfleet/routerfleet/router/zmtp"
)

const address = "engine:5557"

// rig is an engine's publisher and a subscription to it, in a bubble.
type rig struct {
	t      *testing.T
	net    *wire.Network
	inbox  *Inbox
	lane   *Lane
	sub    *Subscriber
	pub    *zmtp.Pub
	kill   context.CancelFunc
	states []string
	mu     sync.Mutex // guards states
	tasks  sync.WaitGroup
	end    context.CancelFunc
}

// RankState records what the observer hears.
func (r *rig) RankState(_ index.Rank, s State) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.states = append(r.states, fmt.Sprint(s.Phase, " ", s.Epoch, " ", s.Reason != nil))
}

func newRig(t *testing.T) *rig {
	r := &rig{t: t, net: wire.NewNetwork(), inbox: NewInbox(NewBudget(0))}
	rank := index.Rank{Worker: "w", DP: 1}
	r.lane = r.inbox.Lane(rank)
	var err error
	r.sub, err = NewSubscriber(SubscriberOptions{
		Rank: rank, Address: address, Decoder: DecoderOptions{Scheme: index.SchemeSGLang}, Sink: r.lane, Observer: r,
		ZMTP: zmtp.Options{Dial: r.net.Dial}, Rand: func(int64) int64 { return 0 },
	})
	if err != nil {
		t.Fatal(err)
	}
	var ctx context.Context
	ctx, r.end = context.WithCancel(t.Context())
	r.tasks.Go(func() {
		if err := r.sub.Run(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("Run ended with %v", err)
		}
	})
	return r
}

// publish starts the engine's publisher.
func (r *rig) publish(hwm int) {
	ctx, cancel := context.WithCancel(r.t.Context())
	r.pub, r.kill = zmtp.NewPub(zmtp.PubOptions{HighWaterMark: hwm}), cancel
	l := r.net.Listen(address)
	pub := r.pub
	r.tasks.Go(func() { _ = pub.Serve(ctx, l) })
	r.settle()
}

// settle lets redials happen.
func (r *rig) settle() {
	<-time.After(3 * time.Second) // by the bubble's clock: longer than a redial pause
	synctest.Wait()
}

func (r *rig) stop() {
	if r.kill != nil {
		r.kill()
	}
	r.end()
	r.tasks.Wait()
	r.lane.Close()
	if used := r.inbox.Budget().Used(); used != 0 {
		r.t.Errorf("%d bytes of the budget are lost", used)
	}
}

// send publishes a batch with one removal of the block with the number seq.
func (r *rig) send(seqs ...int64) {
	for _, seq := range seqs {
		r.pub.Publish(nil, wire.SeqFrame(seq), wire.SGLangArray.Encode(wire.Batch{TS: 1, Rank: ptr(1), Events: []wire.Event{wire.Removed{Hashes: []wire.Hash{wire.Hash(seq)}}}}))
	}
	synctest.Wait()
}

// delivered takes all there is.
func (r *rig) delivered() (out []string) {
	synctest.Wait()
	for d, ok := r.inbox.Take(); ok; d, ok = r.inbox.Take() {
		s := fmt.Sprint(d.Kind, " ", d.Epoch)
		if d.Batch != nil {
			s += fmt.Sprint(" seq ", d.Batch.Seq)
			d.Batch.Release()
		}
		if d.Rank != (index.Rank{Worker: "w", DP: 1}) {
			r.t.Errorf("a delivery of rank %v", d.Rank)
		}
		out = append(out, s)
	}
	return out
}

func (r *rig) expect(want ...string) {
	r.t.Helper()
	if got := r.delivered(); !slices.Equal(got, want) {
		r.t.Errorf("delivered %q, want %q", got, want)
	}
}

func TestARankSeesOpenedBatchesClosedForEveryEpoch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		defer r.stop()
		r.publish(0)
		r.send(0, 1)
		r.expect("opened 1", "arrived 1 seq 0", "arrived 1 seq 1")
		r.kill()
		r.settle()
		r.publish(0)
		r.send(0)
		r.expect("closed 1", "opened 2", "arrived 2 seq 0")
		if s := r.sub.State(); s.Phase != Up || s.Epoch != 2 {
			t.Errorf("state %+v", s)
		}
	})
}

func TestThePhasesOfARankAreReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		defer r.stop()
		r.settle() // nobody listens: refused several times, reported once
		if st := r.sub.Stats(); st.Unreachable < 2 || st.Connects != 0 {
			t.Errorf("counted %+v", st)
		}
		if s := r.sub.State(); s.Phase != Down || s.Reason == nil {
			t.Errorf("state %+v", s)
		}
		r.publish(0)
		r.kill()
		r.settle()
		r.mu.Lock()
		defer r.mu.Unlock()
		if want := []string{"connecting 0 false", "down 0 true", "up 1 false", "down 1 true"}; !slices.Equal(r.states, want) {
			t.Errorf("reported %q, want %q", r.states, want)
		}
	})
}

func TestMalformedMessagesAreCountedAndNothingEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		defer r.stop()
		r.publish(0)
		seq, payload := wire.SeqFrame(1), wire.SGLangMap.Encode(wire.Batch{})
		r.pub.Publish(nil)
		r.pub.Publish(nil, seq)
		r.pub.Publish(nil, seq, payload, nil)
		r.pub.Publish(nil, seq[1:], payload)
		r.pub.Publish(nil, wire.SeqFrame(-2), payload)
		r.pub.Publish(nil, seq, []byte("garbage"))
		r.send(2)
		r.expect("opened 1", "arrived 1 seq 1", "arrived 1 seq 2")
		st := r.sub.Stats()
		if st.Malformed != 5 || st.Messages != 7 || st.Skips[SkipTorn] != 1 || st.Connects != 1 {
			t.Errorf("counted %+v", st)
		}
	})
}

func TestAPublisherMayAnnounceItsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		defer r.stop()
		r.publish(0)
		r.send(5)
		r.pub.Publish(nil, wire.EndSeqFrame(), nil)
		r.expect("opened 1", "arrived 1 seq 5", "reset 1")
		if st := r.sub.Stats(); st.Resets != 1 || st.Malformed != 0 {
			t.Errorf("counted %+v", st)
		}
	})
}

func TestBatchesOfAnotherRankAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		defer r.stop()
		r.publish(0)
		for _, rank := range []*int{nil, ptr(0), ptr(1)} {
			r.pub.Publish(nil, wire.SeqFrame(0), wire.SGLangMap.Encode(wire.Batch{Rank: rank}))
		}
		r.expect("opened 1", "arrived 1 seq 0", "arrived 1 seq 0", "arrived 1 seq 0")
		if st := r.sub.Stats(); st.ForeignRank != 1 {
			t.Errorf("counted %+v", st)
		}
	})
}

func TestAFullLaneLeavesTheSocketUnread(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		defer r.stop()
		r.publish(100)
		const sent = 20_000
		for seq := range int64(sent) {
			r.send(seq)
		}
		held, _, stalls := r.lane.Held()
		if held != LaneBatches || stalls == 0 {
			t.Errorf("the lane holds %d, waited %d times", held, stalls)
		}
		if r.pub.Dropped() == 0 {
			t.Error("the publisher dropped nothing: somebody keeps reading")
		}
		if used := r.inbox.Budget().Used(); used > LaneBytes {
			t.Errorf("%d bytes are queued", used)
		}
		// What was not dropped arrives in order, and the stream goes on.
		var last int64 = -1
		for range 5 {
			for d, ok := r.inbox.Take(); ok; d, ok = r.inbox.Take() {
				if d.Batch == nil {
					continue
				}
				if d.Batch.Seq <= last {
					t.Fatalf("seq %d after %d", d.Batch.Seq, last)
				}
				last = d.Batch.Seq
				d.Batch.Release()
			}
			synctest.Wait()
		}
		r.send(sent)
		if got := r.delivered(); len(got) == 0 || got[len(got)-1] != fmt.Sprint("arrived 1 seq ", sent) {
			t.Errorf("the last delivery is %q", got)
		}
	})
}

func TestARedialEndsItsEpochAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		defer r.stop()
		r.publish(0)
		r.send(0)
		r.expect("opened 1", "arrived 1 seq 0")
		r.sub.Redial(7) // not the present epoch: nothing happens
		r.send(1)
		r.expect("arrived 1 seq 1")
		r.sub.Redial(1)
		r.send(2) // lost, or read from what had arrived: dropped
		r.settle()
		r.send(3)
		r.expect("closed 1", "opened 2", "arrived 2 seq 3")
		r.sub.Redial(1) // of a past epoch
		r.send(4)
		r.expect("arrived 2 seq 4")
	})
}

// What the old connection has already brought to us counts as little as what it would still bring.
func TestARedialDropsWhatWasReadAndNotYetDelivered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		defer r.stop()
		r.publish(0)
		for seq := range int64(LaneBatches - 1) { // with Opened, the lane is full
			r.send(seq)
		}
		for seq := range int64(10) { // in one write: the first waits for room, the others in the connection's buffer
			r.pub.Publish(nil, wire.SeqFrame(LaneBatches+seq), wire.SGLangArray.Encode(wire.Batch{}))
		}
		synctest.Wait()
		r.sub.Redial(1)
		got := r.delivered()
		for synctest.Wait(); ; synctest.Wait() {
			more := r.delivered()
			if len(more) == 0 {
				break
			}
			got = append(got, more...)
		}
		// Opened, what the lane held, the one that was waiting for room, Closed.
		if n := len(got); n != 1+LaneBatches-1+1+1 || got[n-1] != "closed 1" {
			t.Errorf("%d deliveries, the last is %q", n, got[n-1])
		}
	})
}

// A consumer that asks for a redial as soon as it sees Opened gets one.
func TestARedialMayBeAskedForAsSoonAsAnEpochOpens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		defer r.stop()
		r.tasks.Go(func() {
			<-r.inbox.Ready()
			d, _ := r.inbox.Take()
			r.sub.Redial(d.Epoch)
		})
		r.publish(0)
		r.expect("closed 1", "opened 2")
	})
}

func TestARankThatIsGoneLeavesNothingBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.publish(0)
		r.send(0, 1)
		r.lane.Close() // the rank is forgotten before its subscription ends
		r.send(2)
		if st := r.sub.Stats(); st.Undelivered != 1 {
			t.Errorf("counted %+v", st)
		}
		r.stop()
	})
}

func TestASubscriberNeedsASinkAndAnAddress(t *testing.T) {
	for _, o := range []SubscriberOptions{{Address: "a:1"}, {Sink: &Lane{}}} {
		if _, err := NewSubscriber(o); err == nil {
			t.Errorf("%+v was accepted", o)
		}
	}
}
