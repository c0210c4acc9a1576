package page

import (
	"slices"
	"testing"
	"time"
)

type kinded struct {
	kind string
	n    int
}

func (k kinded) Kind() string { return k.kind }

func TestFiguresOfAKindKeepTheirOrder(t *testing.T) {
	all := []kinded{{"b", 1}, {"a", 2}, {"b", 3}}
	if got, want := Of(all, "b"), []kinded{{"b", 1}, {"b", 3}}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if got := Of(all, "c"); len(got) != 0 {
		t.Errorf("figures of no kind: %v", got)
	}
}

func TestATargetIsMetOrMissed(t *testing.T) {
	if Verdict(true) != "met" || Verdict(false) != "missed" {
		t.Errorf("%q and %q", Verdict(true), Verdict(false))
	}
}

func TestMicrosecondsAreWholeWhateverTheDuration(t *testing.T) {
	for d, want := range map[time.Duration]string{0: "0 us", 1600: "2 us", 5 * time.Millisecond: "5000 us", -3 * time.Microsecond: "-3 us"} {
		if got := Micros(d); got != want {
			t.Errorf("%d ns: %q, want %q", d, got, want)
		}
	}
}
