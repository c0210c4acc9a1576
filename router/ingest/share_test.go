package ingest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/routerfleet/routerfleet/router/kvevents"
)

func TestIndexesShareTheirBoundByNeed(t *testing.T) {
	for _, c := range []struct {
		total      int
		held, want []int
	}{
		{1600, []int{0}, []int{1600}},
		{1600, []int{1600}, []int{1600}},
		{1600, []int{1700}, []int{1600}},
		{1600, []int{0, 0}, []int{800, 800}},               // nobody holds anything: equal shares
		{1600, []int{1000, 0}, []int{1300, 300}},           // room for both
		{1600, []int{1600, 0}, []int{1550, 50}},            // full: the small one may grow
		{1600, []int{1400, 200}, []int{1350, 250}},         // and goes on growing
		{1600, []int{1600, 1600}, []int{800, 800}},         // as far as an equal share
		{1600, []int{100, 900, 900}, []int{133, 733, 733}}, // two that are large are cut to one level
		{2, []int{5, 5, 5}, []int{1, 1, 1}},                // less than there are indexes: one block each
		{16, []int{0, 0, 0, 0}, []int{4, 4, 4, 4}},         // slack is one block at least
	} {
		if got := share(c.total, c.held); !slices.Equal(got, c.want) {
			t.Errorf("%d over %v: got %v, want %v", c.total, c.held, got, c.want)
		}
	}
}

// Whatever is held and however indexes grow: the sum keeps the bound, nobody is cut below an equal share, and whoever wants
// to grow gets there.
func TestSharesKeepTheBoundAndReachAnEqualShare(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		n := 1 + r.IntN(maxSections)
		total := n * (1 + r.IntN(1000))
		held := make([]int, n)
		for i := range held {
			held[i] = r.IntN(2 * total)
		}
		limits := share(total, held)
		sum := 0
		for i, limit := range limits {
			sum += limit
			if fair := total / n; limit < fair && limit < held[i] {
				t.Fatalf("%d over %v: index %d is cut to %d, below the equal share %d", total, held, i, limit, fair)
			}
		}
		if sum > total {
			t.Fatalf("%d over %v: limits %v are %d in all", total, held, limits, sum)
		}
		for turns := 0; slices.Min(held) < total/n; turns++ { // all grow as far as they may
			if turns > 3*growthShare+total {
				t.Fatalf("%d over %d indexes: %v do not reach an equal share", total, n, held)
			}
			copy(held, share(total, held))
		}
	}
}

func TestTheBoundIsOfAllIndexesTogether(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const most = 64
		r := newPumpRig(t, Options{MaxBlocks: most})
		sum := func() (sum, least int) {
			least = most
			for _, s := range r.View().Sections() {
				n := s.Stats().Nodes
				sum, least = sum+n, min(least, n)
			}
			return sum, least
		}
		var lanes [4]*kvevents.Lane
		var seq [4]int64
		flood := func(i int) {
			for range 3 * most / 8 {
				first := i<<20 + int(seq[i])*8
				r.send(lanes[i], brings(1, decode(seq[i], wireChain(root, first, first+1, first+2, first+3, first+4, first+5, first+6, first+7))))
				seq[i]++
			}
			<-time.After(3 * tickEvery)
		}
		for i := range 4 {
			section := tokensSection
			section.Model = fmt.Sprint("m", i)
			lanes[i] = r.registerIn(section, fmt.Sprint("e", i), &fakeLink{}, false)
			r.send(lanes[i], open(1))
			flood(i)
			if held, _ := sum(); held > most {
				t.Fatalf("%d indexes hold %d blocks, the bound is %d", i+1, held, most)
			}
			if held, _ := sum(); held < most*(growthShare-1)/growthShare {
				t.Errorf("%d indexes hold %d blocks, most of %d should be in use", i+1, held, most)
			}
		}
		if _, least := sum(); least < most/4/2 {
			t.Errorf("an index that wants its equal share has %d of %d blocks", least, most/4)
		}
		r.stop()
	})
}
