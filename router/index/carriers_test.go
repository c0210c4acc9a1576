package index

import (
	"reflect"
	"slices"
	"testing"
)

// derive and its dumb twin: the set built anew of its members.
func TestADerivedSetIsTheOneOfItsMembers(t *testing.T) {
	for seed := range uint64(40) {
		r := seeded(t, seed)
		ranks, set := 20+r.IntN(280), noCarriers
		grow := true
		for range 2000 {
			if n := set.n; n == 0 || n > ranks*3/4 {
				grow = n == 0
			}
			id, tiers := rankID(r.IntN(ranks)), Tier(1<<r.IntN(tierCount))
			switch {
			case r.IntN(3) == 0:
				tiers |= Tier(r.IntN(16))
			case r.IntN(2) == 0:
				tiers = Device
			}
			if !grow {
				tiers = 0
				if members := set.members(nil); r.IntN(2) == 0 {
					id = members[len(members)-1].rank // the highest
				}
			}
			members := set.with(id, tiers)
			if set.tiers(id) == tiers {
				continue // never asked for
			}
			want := newSet(slices.Clone(members))
			got := set.derive(id, tiers)
			if !reflect.DeepEqual(got, want) || !got.equals(want) || got.hash != want.hash {
				t.Fatalf("seed %d: %v with %d in %b:\ngot  %+v\nwant %+v", seed, set.members(nil), id, tiers, got, want)
			}
			for i, p := range got.planes {
				if p != nil && slices.Equal(p, got.words) && &p[0] != &got.words[0] {
					t.Fatalf("seed %d: plane %d equals the words and is kept apart", seed, i)
				}
			}
			set = got
		}
	}
}

func TestSetsThatDifferAreNotEqual(t *testing.T) {
	base := []carrier{{1, Device}, {2, Device | Host}, {9, Disk}}
	for i := range base {
		other := slices.Clone(base)
		other[i].tiers ^= External
		if newSet(slices.Clone(base)).equals(newSet(other)) {
			t.Errorf("a set equals one whose member %d has another tier", i)
		}
		if newSet(slices.Clone(base)).equals(newSet(slices.Delete(slices.Clone(base), i, i+1))) {
			t.Errorf("a set equals one without member %d", i)
		}
	}
}
