package ingest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/routerfleet/routerfleet/router/index"
	"github.com/routerfleet/routerfleet/router/snapshot"
)

func TestASourceTellsWhatThePumpKnowsNow(t *testing.T) {
	bubble(t, func(t *testing.T) {
		ready := false
		r := newPumpRig(t, Options{})
		s := NewSource(r.Pump, SourceOptions{Ready: func() bool { return ready }})
		a := r.register("a", &fakeLink{start: Start{Known: true, ID: "p1"}}, false)
		r.register("b", &fakeLink{}, false)
		if ready = true; s.Ready() || !s.SeedableSince().IsZero() {
			t.Error("a source that holds nothing")
		}
		r.send(a, open(1), brings(1, decode(0, wireChain(root, 1, 2, 3))), brings(1, decode(1, wireGone(3))))
		if ready = false; s.Ready() {
			t.Error("ready before its own bootstrap has settled")
		}
		if ready = true; !s.Ready() {
			t.Error("not ready, with two blocks to teach")
		}
		sections := s.Sections()
		if len(sections) != 1 || len(sections[0].Rows) != 2 || sections[0].Key.SeedID == 0 || sections[0].Key.Model != "m" {
			t.Fatalf("sections %+v", sections)
		}
		row := sections[0].Rows[0]
		now, ok := s.Row(sections[0].Key, row.Rank)
		if !ok || now != row || !row.Exportable || row.Cursor.Seq != 1 || row.Blocks != 2 || row.Worker.PodUID != "" && row.Worker.PodUID != "a" {
			t.Errorf("row %+v, now %+v", row, now)
		}
		if idle := sections[0].Rows[1]; idle.Exportable || idle.Cursor.Proof != ProofUnknown {
			t.Errorf("a rank that never spoke: %+v", idle)
		}
		other := sections[0].Key
		other.BlockSize++
		if _, ok := s.Row(other, row.Rank); ok {
			t.Error("a rank of another section")
		}
		r.stop()
		if _, ok := s.Row(sections[0].Key, row.Rank); ok {
			t.Error("a row of a pump that has stopped")
		}
	})
}

func TestASourceGivesNamesAndOrphansInSlices(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newPumpRig(t, Options{})
		s := NewSource(r.Pump, SourceOptions{})
		a := r.register("a", &fakeLink{start: Start{Known: true, ID: "p1"}}, false)
		const named, lost = 5000, 2*feedAtOnce + 7
		r.send(a, open(1))
		for n := range named {
			r.send(a, brings(1, decode(int64(n), wireChain(root, n+1))))
		}
		for n := range lost {
			r.send(a, brings(1, decode(int64(named+n), wireChain(900_000, 100_000+n))))
		}
		hashes, orphans, slices := map[uint64]snapshot.HashRow{}, []uint64{}, 0
		key := r.SnapshotKey(r.View().Sections()[0])
		err := s.Hashes(t.Context(), key, index.Rank{Worker: "a"}, func(h []snapshot.HashRow, o []snapshot.OrphanRow) error {
			slices++
			if len(h) > 1024 || len(o) > feedAtOnce {
				t.Errorf("a slice of %d names and %d orphans", len(h), len(o))
			}
			for _, x := range h {
				hashes[x.Hash] = x
			}
			for _, x := range o {
				orphans = append(orphans, x.Hash)
			}
			return nil
		})
		if err != nil || len(hashes) != named || len(orphans) != lost || slices < keySegments+3 {
			t.Errorf("%v: %d names, %d orphans in %d slices", err, len(hashes), len(orphans), slices)
		}
		for i, o := range orphans {
			if o != uint64(100_000+i) {
				t.Fatalf("orphan %d is %d: the oldest come first", i, o)
			}
		}
		if h := hashes[1]; h.Copies.Tiers() != index.Device {
			t.Errorf("copies %x", h.Copies)
		}
		cut := errors.New("cut")
		if err := s.Hashes(t.Context(), key, index.Rank{Worker: "a"}, func([]snapshot.HashRow, []snapshot.OrphanRow) error { return cut }); err != cut {
			t.Errorf("error %v", err)
		}
		r.stop()
	})
}

// The orphans a slice ended with may be gone when the next one begins.
func TestSlicesOfOrphansGoOnWhereTheLastOneEnded(t *testing.T) {
	o := newOrphans()
	for n := range uint64(10) {
		o.add(n, 100+n, 0, index.Device)
	}
	rows, last := o.rows(0, 4, nil)
	o.remove(3, index.Device) // the last of the slice
	o.remove(4, index.Device)
	o.add(11, 5, 0, index.Device)
	for {
		var more []snapshot.OrphanRow
		if more, last = o.rows(last, 4, nil); len(more) == 0 {
			break
		}
		rows = append(rows, more...)
	}
	got := ""
	for _, r := range rows {
		got += fmt.Sprint(r.Hash, " ")
	}
	if got != "0 1 2 3 5 6 7 8 9 11 " {
		t.Errorf("orphans %s", got)
	}
}

func TestNamesAreSetNotAdded(t *testing.T) {
	m := newKeyMap(func() uint64 { return 7 })
	two := copies(0).more(index.Device).more(index.Device).more(index.Host)
	for range 2 { // blocks of a segment that is rebuilt may be delivered twice
		if !m.put(5, 50, two) {
			t.Fatal("refused")
		}
	}
	if k, c, ok := m.has(5); !ok || k != 50 || c != two || m.n != 1 {
		t.Errorf("%v %x %v, %d names", k, c, ok, m.n)
	}
	if m.put(5, 51, two) {
		t.Error("one name for two keys")
	}
	if _, _, ok := m.has(6); ok {
		t.Error("a name nobody gave")
	}
}

func bootRig(t *testing.T) (*pumpRig, *section) {
	source := newStill(t, Options{})
	source.join(index.SchemeTokens, "a", "p1")
	source.hear("a", stream(1, 0, 9)...)
	r := newPumpRig(t, Options{Bootstrap: true})
	a := r.register("a", &fakeLink{start: Start{Known: true, ID: "p1"}}, false)
	r.send(a, open(1))
	return r, source.teach(nil)
}

func (r *pumpRig) owing() []RankEpoch {
	synctest.Wait()
	var out []RankEpoch
	for _, k := range r.View().Ranks() {
		if o := k.Status().Owed; o != nil {
			out = append(out, RankEpoch{k.Rank, o.Epoch})
		}
	}
	return out
}

func TestAGraftIntoARunningPump(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r, v := bootRig(t)
		got, err := graftBy(t.Context(), r.during, v, r.owing())
		if err != nil || len(got) != 1 || got[0].Verdict != Grafted || got[0].Cursor.Seq != 9 {
			t.Fatalf("%+v, %v", got, err)
		}
		if st := r.status("a"); st.Blocks[0] != 10 || st.Mapped != 10 || st.Awaiting == nil {
			t.Errorf("%+v", st)
		}
		a := r.status("a").Awaiting
		if err := r.Witness(t.Context(), RankEpoch{index.Rank{Worker: "a"}, a.Epoch}, a.Watermark, NoAdvance); err != nil {
			t.Fatal(err)
		}
		if st := r.status("a"); st.Outcome != OutcomeWarm || !st.Exportable {
			t.Errorf("%+v", st)
		}
		r.stop()
	})
}

func TestAGraftEndsWithItsContextAndLeavesNothing(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r, v := bootRig(t)
		ctx, cancel := context.WithCancel(t.Context())
		v.before = func(read int) {
			if read == 1 {
				cancel()
			}
		}
		if _, err := graftBy(ctx, r.during, v, r.owing()); !errors.Is(err, context.Canceled) {
			t.Errorf("error %v", err)
		}
		synctest.Wait()
		if s := r.View().Sections()[0].Index.View(); len(s.Ranks()) != 0 {
			t.Errorf("ranks %v", s.Ranks())
		}
		if st := r.status("a"); st.State != Pending || st.Owed == nil {
			t.Errorf("%+v", st)
		}
		r.stop()
	})
}

func TestAGraftEndsWithThePump(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r, v := bootRig(t)
		v.before = func(read int) {
			if read == 1 {
				r.stop()
			}
		}
		if _, err := graftBy(t.Context(), r.during, v, r.owing()); !errors.Is(err, ErrStopped) {
			t.Errorf("error %v", err)
		}
	})
}

func TestAuditsBeginTwoRepairsAMinute(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newPumpRig(t, Options{Bootstrap: true})
		for _, w := range []string{"a", "b", "c"} {
			l := r.register(w, &fakeLink{start: Start{Known: true, ID: "p1"}}, false)
			r.send(l, open(1), brings(1, decode(0, wireChain(root, 1))))
			if err := r.Suspect(t.Context(), index.Rank{Worker: w}, r.status(w).Cursor, SuspectMinority); err != nil {
				t.Fatal(err)
			}
		}
		var repairs []string
		for _, w := range []string{"a", "b", "c"} {
			st := r.status(w)
			if !st.Trust.Suspect || !st.Audited {
				t.Errorf("%s is not suspect", w)
			}
			if st.Owed != nil && st.Owed.Kind == OwedRepair {
				repairs = append(repairs, w)
			}
		}
		if len(repairs) != 2 {
			t.Errorf("repairs of %v", repairs)
		}
		if err := r.Equal(t.Context(), index.Rank{Worker: "c"}, r.status("c").Cursor); err != nil || r.status("c").Trust.Suspect {
			t.Errorf("%v: still suspect after an equal comparison", err)
		}
		r.stop()
	})
}
