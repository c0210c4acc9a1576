package policy

import (
	"encoding/binary"
	"slices"
	"testing"

	"github.com/zeebo/xxh3"

	"github.com/routerfleet/routerfleet/router/index"
	"github.com/routerfleet/routerfleet/router/workers/workerstest"
)

// Replicas of two releases must break ties alike, so the function is fixed: the highest XXH3-64 of the request key as
// LE64 and the rank's identity.
func TestTheRendezvousIsWhatItWillAlwaysBe(t *testing.T) {
	ranks := []index.Rank{{Worker: "a"}, {Worker: "a", DP: 1}, {Worker: "b"}, {Worker: "0b6e1c1e-5d6b-4d5c-9d57-1f9a3f4a8c11"}}
	for key := range uint64(200) {
		var want, most uint64
		var r rendezvous
		r.begin(key)
		for i, rank := range ranks {
			b := binary.LittleEndian.AppendUint64(nil, key)
			b = append(append(b, rank.Worker...), 0, byte(rank.DP), 0, 0, 0)
			if h := xxh3.Hash(b); h > most {
				want, most = uint64(i), h
			}
			r.offer(i, identityOf(rank))
		}
		if r.at != int(want) {
			t.Fatalf("key %d: rank %d wins, want %d", key, r.at, want)
		}
	}
}

func TestRanksOfOneWorkerTieToo(t *testing.T) {
	pool := workerstest.Ranks(t, workerstest.Worker{ID: "a", URL: "http://10.0.0.1:1", Models: []string{"m"}, DPSize: 4})
	p := newRig(t, 1).policy
	counts := make([]int, 4)
	for key := range uint64(2_000) {
		d, _ := p.Decide(Request{Model: "m", Key: key}, pool)
		counts[d.Rank.DP()]++
	}
	if slices.Min(counts) < 400 { // 500 +- 5 sigma
		t.Errorf("the ranks won %v of 2,000 ties", counts)
	}
}
