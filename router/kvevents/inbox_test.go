package kvevents

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/routerfleet/routerfleet/router/index"
)

// sized gives a batch that takes about so much memory.
func sized(seq int64, bytes int) *Batch {
	return &Batch{Seq: seq, hashes: make([]Hash, 0, bytes/8)}
}

func arrived(b *Batch) Delivery { return Delivery{Kind: Arrived, Batch: b} }

// put delivers from a goroutine of its own and tells how it ended.
func put(ctx context.Context, l *Lane, d Delivery) <-chan error {
	done := make(chan error, 1)
	go func() { done <- l.Deliver(ctx, d) }()
	return done
}

// waits tells that a delivery has not ended, though nothing moves any more.
func waits(t *testing.T, done <-chan error) {
	t.Helper()
	synctest.Wait()
	select {
	case err := <-done:
		t.Fatalf("the delivery did not wait: %v", err)
	default:
	}
}

func ends(t *testing.T, done <-chan error, want error) {
	t.Helper()
	synctest.Wait()
	select {
	case err := <-done:
		if !errors.Is(err, want) {
			t.Fatalf("the delivery ended with %v, want %v", err, want)
		}
	default:
		t.Fatal("the delivery still waits")
	}
}

// fill delivers what fits without waiting.
func fill(t *testing.T, l *Lane, ds ...Delivery) {
	t.Helper()
	for _, d := range ds {
		ends(t, put(t.Context(), l, d), nil)
	}
}

func take(t *testing.T, i *Inbox) Delivery {
	t.Helper()
	d, ok := i.Take()
	if !ok {
		t.Fatal("the inbox is empty")
	}
	return d
}

func TestALaneHolds1024DeliveriesAndThenWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in := NewInbox(NewBudget(0))
		l := in.Lane(index.Rank{Worker: "a"})
		for seq := range int64(LaneBatches) {
			fill(t, l, arrived(sized(seq, 8)))
		}
		next := put(t.Context(), l, arrived(sized(LaneBatches, 8)))
		waits(t, next)
		take(t, in).Batch.Release()
		ends(t, next, nil)
		if held, _, stalls := l.Held(); held != LaneBatches || stalls != 1 {
			t.Errorf("the lane holds %d, waited %d times", held, stalls)
		}
		l.Close()
	})
}

func TestALaneHoldsFourMebibytesOrOneBatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		budget := NewBudget(0)
		in := NewInbox(budget)
		l := in.Lane(index.Rank{Worker: "a"})
		fill(t, l, arrived(sized(0, 3*LaneBytes))) // alone it fits, whatever its size
		second := put(t.Context(), l, arrived(sized(1, 8)))
		waits(t, second)
		take(t, in).Batch.Release()
		ends(t, second, nil)
		fill(t, l, arrived(sized(2, LaneBytes-4096)))
		fourth := put(t.Context(), l, arrived(sized(3, 4096)))
		waits(t, fourth)
		l.Close()
		ends(t, fourth, ErrLaneClosed)
		if budget.Used() != 0 {
			t.Errorf("%d bytes of the budget are lost", budget.Used())
		}
	})
}

func TestTheBudgetIsOneForLanesAndHeldBatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const mib = 1 << 20
		budget := NewBudget(3 * mib)
		in := NewInbox(budget)
		a, b := in.Lane(index.Rank{Worker: "a"}), in.Lane(index.Rank{Worker: "b"})
		fill(t, a, arrived(sized(0, mib)), arrived(sized(1, mib)))
		held := take(t, in).Batch // taken and kept: still counted
		if budget.Tight() {
			t.Error("two thirds are not tight")
		}
		waiting := put(t.Context(), b, arrived(sized(0, mib)))
		waits(t, waiting) // headers of batches make three of them more than three mebibytes
		if _, _, stalls := b.Held(); stalls != 1 {
			t.Errorf("the lane waited %d times", stalls)
		}
		held.Release()
		ends(t, waiting, nil)
		fill(t, a, arrived(sized(2, mib/2)))
		if !budget.Tight() {
			t.Errorf("%d of %d are not tight", budget.Used(), budget.Limit())
		}
		huge := put(t.Context(), b, arrived(sized(1, 3*mib+mib/2))) // more than there ever is
		waits(t, huge)
		for range 4 {
			if d, ok := in.Take(); ok {
				d.Batch.Release()
			}
			synctest.Wait()
		}
		ends(t, huge, nil)
		a.Close()
		b.Close()
		if d, ok := in.Take(); ok {
			d.Batch.Release()
		}
		if budget.Used() != 0 {
			t.Errorf("%d bytes of the budget are lost", budget.Used())
		}
	})
}

func TestWhoGivesUpWaitingKeepsTheBatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		budget := NewBudget(1 << 20)
		in := NewInbox(budget)
		a, b := in.Lane(index.Rank{Worker: "a"}), in.Lane(index.Rank{Worker: "b"})
		fill(t, a, arrived(sized(0, 1<<20)))
		ctx, cancel := context.WithCancel(t.Context())
		batch := sized(7, 8)
		forBudget := put(ctx, b, arrived(batch))
		full := put(ctx, a, arrived(sized(1, LaneBytes)))
		waits(t, forBudget)
		waits(t, full)
		cancel()
		ends(t, forBudget, context.Canceled)
		ends(t, full, context.Canceled)
		if batch.Seq != 7 {
			t.Error("the batch was taken all the same")
		}
		a.Close()
		b.Close()
		a.Close() // twice is once
		if used := budget.Used(); used != 0 {
			t.Errorf("%d bytes of the budget are lost", used)
		}
	})
}

func TestOneRankThatBabblesDoesNotDelayTheOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in := NewInbox(NewBudget(0))
		loud, quiet := in.Lane(index.Rank{Worker: "loud"}), in.Lane(index.Rank{Worker: "quiet", DP: 1})
		for seq := range int64(500) {
			fill(t, loud, arrived(sized(seq, 8)))
		}
		fill(t, quiet, Delivery{Kind: Opened, Epoch: 3}, arrived(sized(0, 8)))
		var turns []string
		for range 4 {
			<-in.Ready()
			turns = append(turns, take(t, in).Rank.Worker)
		}
		if want := []string{"loud", "quiet", "loud", "quiet"}; turns[0] != want[0] || turns[1] != want[1] || turns[2] != want[2] || turns[3] != want[3] {
			t.Errorf("turns %v, want %v", turns, want)
		}
		loud.Close()
		quiet.Close()
		if d, ok := in.Take(); ok {
			t.Errorf("a closed lane gave %+v", d)
		}
	})
}

func TestClosingALaneLeavesTheOthersTheirTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for gone := range 3 {
			in := NewInbox(NewBudget(0))
			var lanes []*Lane
			for dp := range int32(3) {
				l := in.Lane(index.Rank{DP: dp})
				fill(t, l, Delivery{Kind: Opened}, Delivery{Kind: Closed})
				lanes = append(lanes, l)
			}
			lanes[gone].Close()
			fill(t, lanes[(gone+1)%3], Delivery{Kind: Opened})
			var got []int32
			for d, ok := in.Take(); ok; d, ok = in.Take() {
				got = append(got, d.Rank.DP)
			}
			if len(got) != 5 || got[0] == got[1] || slices.Contains(got, int32(gone)) {
				t.Errorf("without lane %d the turns are %v", gone, got)
			}
		}
	})
}

func TestDeliveriesOfARankKeepTheirOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		random := rand.New(rand.NewPCG(5, 6))
		in := NewInbox(NewBudget(0))
		lanes := make([]*Lane, 3)
		sent, taken := make([]int64, 3), make([]int64, 3)
		for i := range lanes {
			lanes[i] = in.Lane(index.Rank{DP: int32(i)})
		}
		for range 5000 {
			i := random.IntN(3)
			if held, _, _ := lanes[i].Held(); held < LaneBatches && random.IntN(2) == 0 {
				if err := lanes[i].Deliver(t.Context(), arrived(sized(sent[i], 8))); err != nil {
					t.Fatal(err)
				}
				sent[i]++
				continue
			}
			if d, ok := in.Take(); ok {
				if dp := d.Rank.DP; d.Batch.Seq != taken[dp] {
					t.Fatalf("rank %d: seq %d, want %d", dp, d.Batch.Seq, taken[dp])
				} else {
					taken[dp]++
				}
				d.Batch.Release()
			}
		}
		for d, ok := in.Take(); ok; d, ok = in.Take() {
			taken[d.Rank.DP]++
			d.Batch.Release()
		}
		for i := range lanes {
			if taken[i] != sent[i] {
				t.Errorf("rank %d: %d sent, %d taken", i, sent[i], taken[i])
			}
		}
		if used := in.Budget().Used(); used != 0 {
			t.Errorf("%d bytes of the budget are lost", used)
		}
	})
}
