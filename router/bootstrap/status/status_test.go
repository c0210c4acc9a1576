package status

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "write the golden files")

func ptr(n int) *int { return &n }

func full() Status {
	return Status{
		PodUID: "8f0c6f6e-6c39-4a7a-9d0d-0b4f7f6d2a11", Boot: "b1946ac9", StartedAt: time.Date(2026, 9, 21, 12, 0, 0, 0, time.UTC),
		Revision: "7c9d5f6b84", TokenGeneration: "3f2a9c01", State: StateSettled, Verdict: VerdictDisabled,
		SeededFrom: "0f6b1c3e-3c53-4a0e-8f10-5b1d5be6b7a2", SnapshotFormats: []int{2, 1}, Seedable: true,
		SeedableSince: time.Date(2026, 9, 1, 8, 0, 0, 0, time.UTC),
		Coverage:      &Coverage{Recoverable: 5, Recovered: 4, Percent: ptr(80)},
		Workers:       Workers{Discovered: 4, Usable: 3, Subscribed: 2},
		Ranks:         Ranks{Total: 9, Warm: 3, Unwitnessed: 1, Proving: 1, Pending: 1, Cold: 4, Untrusted: 1, Suspect: 1, Partial: 2},
		Peers:         &Peers{Known: 2, Synced: true, Warm: 1},
		PeersAsked:    []PeerAsked{{PodUID: "0f6b1c3e-3c53-4a0e-8f10-5b1d5be6b7a2", Name: "demo-1", Answer: "warm"}, {Name: "demo-2", Answer: "refused"}},
		Progress: &Progress{Peer: "demo-1", Bytes: 1 << 20, BytesTotal: 4 << 20, Nodes: 100_000, NodesTotal: 400_000,
			RanksDone: 4, RanksTotal: 9, BytesPerSecond: 2 << 20, SecondsLeft: 2},
		RankRows:  []RankRow{{Worker: "llm/engine-0", Rank: 1, Proof: "proven", Flags: []string{"partial"}, Seq: 41, Blocks: 12, Outcome: "warm", SeededFrom: "x"}},
		Problems:  []Problem{{Code: CodeClockSkew, Count: 2, Example: "10.0.0.7 is 75 s ahead"}},
		SettledAt: time.Date(2026, 9, 21, 12, 0, 3, 0, time.UTC), Error: "",
	}
}

func TestTheWireFormIsTheGoldenFile(t *testing.T) {
	got, err := json.MarshalIndent(full(), "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	got = append(got, '\n')
	const golden = "testdata/full.json"
	if *update {
		if err := os.WriteFile(golden, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Fatalf("got\n%s\nwant\n%s", got, want)
	}
}

func TestWhatIsWrittenIsReadBackTheSame(t *testing.T) {
	for name, s := range map[string]Status{"full": full(), "little known": {State: StateStarting, Verdict: VerdictUnknown}} {
		raw, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		got, err := Decode(bytes.NewReader(raw))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if !reflect.DeepEqual(got, s) {
			t.Fatalf("%s: got %+v, want %+v", name, got, s)
		}
	}
}

func TestWhatIsNotKnownIsLeftOut(t *testing.T) {
	raw, err := json.Marshal(Status{})
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"state":"unknown","verdict":"unknown","workers":{"discovered":0,"usable":0,"subscribed":0}}`
	if string(raw) != want {
		t.Fatalf("got %s, want %s", raw, want)
	}
}

func TestANewerRoutersWordsAreUnknownAndNotAnError(t *testing.T) {
	got, err := Decode(strings.NewReader(`{"state":"dreaming","verdict":"hot","coverage":{"percent":99},"problems":[{"code":"new_trouble","count":1},{}]}`))
	if err != nil {
		t.Fatal(err)
	}
	if got.State != StateUnknown || got.Verdict != VerdictUnknown || got.Problems[0].Code != CodeUnknown || got.Problems[1].Code != CodeUnknown {
		t.Fatalf("got %+v", got)
	}
	got, err = Decode(strings.NewReader(`{}`))
	if err != nil || got.State != StateUnknown || got.Verdict != VerdictUnknown {
		t.Fatalf("an empty document gave %+v, %v", got, err)
	}
}

func TestEveryEnumValueSurvivesTheWire(t *testing.T) {
	for v := range verdicts {
		var got Verdict
		if err := got.UnmarshalText([]byte(v.String())); err != nil || got != v {
			t.Errorf("verdict %q became %q, %v", v, got, err)
		}
	}
	for v := range states {
		var got State
		if err := got.UnmarshalText([]byte(v.String())); err != nil || got != v {
			t.Errorf("state %q became %q, %v", v, got, err)
		}
	}
	for v := range codes {
		var got Code
		if err := got.UnmarshalText([]byte(v.String())); err != nil || got != v {
			t.Errorf("code %q became %q, %v", v, got, err)
		}
	}
	if len(codes) > MaxProblems {
		t.Fatalf("%d codes do not fit into %d problems", len(codes), MaxProblems)
	}
}

func TestDecodeRefusesWhatIsBeyondALimit(t *testing.T) {
	problems := func(n int) string {
		return `{"problems":[` + strings.TrimSuffix(strings.Repeat(`{"code":"clock_skew","count":1},`, n), ",") + `]}`
	}
	peersAsked := func(n int) string {
		return `{"peersAsked":[` + strings.TrimSuffix(strings.Repeat(`{"answer":"warm"},`, n), ",") + `]}`
	}
	padded := func(n int) string { return `{"x":"` + strings.Repeat("a", n-8) + `"}` }
	for _, c := range []struct {
		name, doc string
		ok        bool
	}{
		{"body at the limit", padded(MaxBytes), true},
		{"body past the limit", padded(MaxBytes + 1), false},
		{"problems at the limit", problems(MaxProblems), true},
		{"problems past the limit", problems(MaxProblems + 1), false},
		{"error at the limit", `{"error":"` + strings.Repeat("e", maxText) + `"}`, true},
		{"error past the limit", `{"error":"` + strings.Repeat("e", maxText+1) + `"}`, false},
		{"peers asked at the limit", peersAsked(MaxPeersAsked), true},
		{"peers asked past the limit", peersAsked(MaxPeersAsked + 1), false},
		{"formats past the limit", `{"snapshotFormats":[1,2,3,4,5,6,7,8,9]}`, false},
		{"example past the limit", `{"problems":[{"code":"clock_skew","count":1,"example":"` + strings.Repeat("e", maxText+1) + `"}]}`, false},
	} {
		_, err := Decode(strings.NewReader(c.doc))
		var limit *LimitError
		if (err == nil) != c.ok || (err != nil && !errors.As(err, &limit)) {
			t.Errorf("%s: got %v, want ok=%v", c.name, err, c.ok)
		}
	}
	for _, doc := range []string{`{"workers":{"usable":-1}}`, `{"ranks":{"total":-1}}`, `{"problems":[{"code":"clock_skew","count":-1}]}`,
		`{"coverage":{"recoverable":1,"recovered":2}}`, `{"coverage":{"recoverable":-1}}`, `{"coverage":{"recoverable":1,"recovered":1,"percent":101}}`, `{"ranks":{"cold":-1}}`,
		`nonsense`, ``, `[]`} {
		if _, err := Decode(strings.NewReader(doc)); err == nil {
			t.Errorf("%q was taken", doc)
		}
	}
}

func FuzzDecode(f *testing.F) {
	raw, _ := json.Marshal(full())
	for _, s := range []string{string(raw), "", "{}", "null", `{"workers":{"discovered":1e9}}`, `{"startedAt":"0000-00-00"}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, doc []byte) {
		s, err := Decode(bytes.NewReader(doc))
		if err != nil {
			return
		}
		raw, err := json.Marshal(s)
		if err != nil {
			t.Fatalf("%q was read and cannot be written: %v", doc, err)
		}
		again, err := Decode(bytes.NewReader(raw))
		if err != nil {
			t.Fatalf("%q was read and not read back: %v", doc, err)
		}
		if !slices.Equal(s.Problems, again.Problems) || s.State != again.State || s.Verdict != again.Verdict || s.Workers != again.Workers || s.Ranks != again.Ranks {
			t.Fatalf("%q changed on its way", doc)
		}
	})
}
