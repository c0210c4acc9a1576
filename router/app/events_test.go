package app

import (
	"bytes"
	"fmt"
	"log/slog"
	"math"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"unicode/utf8"

	"github.com/routerfleet/routerfleet/router/bootstrap/status"
	"github.com/routerfleet/routerfleet/router/index"
	"github.com/routerfleet/routerfleet/router/ingest"
	"github.com/routerfleet/routerfleet/router/kvevents"
	"github.com/routerfleet/routerfleet/router/policy"
	"github.com/routerfleet/routerfleet/router/workers"
)

func TestTheHashSeedIsReadOrDrawnAndNeverLogged(t *testing.T) {
	var lines bytes.Buffer
	log := slog.New(slog.NewTextHandler(&lines, nil))
	file := func(text string) string {
		path := filepath.Join(t.TempDir(), "hash-seed")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for _, text := range []string{"0123456789abcdef", "0123456789ABCDEF\n"} {
		if got, err := hashSeed(file(text), log); err != nil || got != 0x0123456789abcdef {
			t.Errorf("%q: %x, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "0123456789abcde", "0123456789abcdef0", "0123456789abcdeg", strings.Repeat("ab", 100)} {
		if _, err := hashSeed(file(text), log); err == nil || !strings.Contains(err.Error(), "16 hexadecimal digits") || text != "" && strings.Contains(err.Error(), text) {
			t.Errorf("%q: %v", text, err)
		}
	}
	if _, err := hashSeed(t.TempDir(), log); err == nil {
		t.Error("a directory was read")
	}
	if lines.Len() != 0 {
		t.Errorf("logged: %s", lines.String())
	}
	missing := filepath.Join(t.TempDir(), "missing")
	seen := map[index.Seed]bool{}
	for _, path := range []string{"", missing, "", missing} {
		seed, err := hashSeed(path, log)
		if err != nil || seen[seed] {
			t.Errorf("%q: %x, %v", path, seed, err)
		}
		seen[seed] = true
	}
	if text := lines.String(); strings.Count(text, "random") != 4 || !strings.Contains(text, missing) {
		t.Errorf("the log does not say what happened: %s", text)
	}
}

func TestTheIndexIsBoundedByTheMemoryThereIs(t *testing.T) {
	meminfo := fstest.MapFS{"proc/meminfo": {Data: []byte("MemFree: 1 kB\nMemTotal:        4800000 kB\n")}}
	for name, c := range map[string]struct {
		limit int64
		files fstest.MapFS
		want  int
	}{
		"60 % of GOMEMLIMIT":           {4_800_000, meminfo, 60_000},
		"25 % of the machine's memory": {math.MaxInt64, meminfo, 4_800_000 * 1024 / 4 / 48},
		"nobody says":                  {math.MaxInt64, fstest.MapFS{}, blocksUnasked},
		"nonsense":                     {math.MaxInt64, fstest.MapFS{"proc/meminfo": {Data: []byte("MemTotal: much\n")}}, blocksUnasked},
		"hardly any":                   {1, meminfo, 1},
	} {
		if got := blocksWithin(c.limit, c.files); got != c.want {
			t.Errorf("%s: %d blocks, want %d", name, got, c.want)
		}
	}
	if got := indexBlocks(7); got != 7 {
		t.Errorf("configured are 7 blocks, got %d", got)
	}
}

func TestProblemsAreCountedByWorkerOrRank(t *testing.T) {
	p := func(code, worker, message string) kvevents.Problem {
		return kvevents.Problem{Code: code, Worker: worker, Message: message}
	}
	long := strings.Repeat("é", maxExampleBytes)
	got := summarize([]kvevents.Problem{
		p(kvevents.CodeSettings, "a", "first"), p(kvevents.CodeSettings, "a", "second"), p(kvevents.CodeSettings, "b", "third"),
		p(ingest.CodeUntrusted, "a", "rank 0"), p(ingest.CodeUntrusted, "a", "rank 1"), p(kvevents.CodeForeignHost, "c", long),
	})
	want := []status.Problem{
		{Code: status.CodeEventSettings, Count: 2, Example: "a: first"},
		{Code: status.CodeForeignEventHost, Count: 1},
		{Code: status.CodeKVStreamUntrusted, Count: 2, Example: "a: rank 0"},
	}
	if len(got) != 3 || !utf8.ValidString(got[1].Example) || len(got[1].Example) > maxExampleBytes+3 {
		t.Fatalf("got %+v", got)
	}
	got[1].Example = ""
	if !slices.Equal(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	for i := range 3 * status.MaxProblems {
		if n := len(summarize(slices.Repeat([]kvevents.Problem{p(fmt.Sprint("code ", i), "a", "x")}, 3))); n != 1 {
			t.Errorf("%d problems of one code", n)
		}
	}
}

func TestTheBaseModelNamesTheIndex(t *testing.T) {
	for _, c := range []struct {
		models []workers.Model
		want   string
	}{
		{nil, ""},
		{[]workers.Model{{ID: "m"}}, "m"},
		{[]workers.Model{{ID: "a-lora", Parent: "m"}, {ID: "m"}}, "m"},
		{[]workers.Model{{ID: "a-lora", Parent: "m"}}, "m"}, // --model-id names the adapter
	} {
		if got := baseModel(c.models); got != c.want {
			t.Errorf("%v: %q, want %q", c.models, got, c.want)
		}
	}
}

// A policy and the feed must name a rank alike, or nothing is ever found.
func TestRanksAreCalledAlikeByPolicyAndFeed(t *testing.T) {
	u, _ := url.Parse("http://10.0.0.1:8000")
	f, err := workers.NewFixed(workers.Options{}, workers.FixedWorker{ID: "static", URL: u, Models: []string{"m"}, DPSize: 2})
	if err != nil {
		t.Fatal(err)
	}
	listed := engines{workers: f.Registry, configured: kvevents.Configured{Port: 7}}.Engines()
	if len(listed) != 1 {
		t.Fatalf("listed %+v", listed)
	}
	e := listed[0]
	if rank := f.Snapshot().Workers()[0].Worker.Ranks()[1]; policy.IndexRank(rank) != (index.Rank{Worker: e.ID, DP: 1}) {
		t.Errorf("%+v and %+v", policy.IndexRank(rank), e)
	}
	if e.Identity != u.String() || e.Host != "10.0.0.1" || e.Model != "m" || e.Configured.Port != 7 || e.Name != "static" {
		t.Errorf("engine %+v", e)
	}
	// Withdrawn is not forgotten: an engine that is absent is still listed.
	f.Set()
	if n := len((engines{workers: f.Registry}).Engines()); n != 1 {
		t.Errorf("%d engines while one is absent for a moment", n)
	}
}

func TestEventsAreFollowedWhenSomebodyUsesThem(t *testing.T) {
	off := false
	for name, c := range map[string]struct {
		o    Options
		want bool
	}{
		"default":        {Options{}, true},
		"--no-kv-events": {Options{KVOptions: KVOptions{KVEvents: &off}}, false},
		"power_of_two":   {Options{Policy: policy.NamePowerOfTwo}, false},
		"round_robin":    {Options{Policy: policy.NameRoundRobin}, false},
	} {
		c.o.Worker = []string{"http://127.0.0.1:1"}
		a, err := New(c.o)
		if err != nil {
			t.Fatal(err)
		}
		if got := a.events != nil; got != c.want {
			t.Errorf("%s: followed %v", name, got)
		}
		if got := a.keyOptions().Wanted != nil; got != c.want {
			t.Errorf("%s: keys wanted %v", name, got)
		}
	}
}

func TestEventSettingsWithoutABlockSizeAreNone(t *testing.T) {
	o, err := parse(t, "--worker=http://x", "--kv-events-topic=", "--kv-events-hash-algorithm=", "--kv-events-hash-seed=", "--host-tier-percent=0", "--no-kv-events")
	if err != nil || o.Validate() != nil {
		t.Fatal(err, o.Validate())
	}
	o = o.withDefaults()
	if c := o.configured(); c != (kvevents.Configured{}) {
		t.Errorf("configured: %+v", c)
	}
	if k := o.knobs(); k.HostTierPercent != 0 || k.DiskTierPercent != 25 || o.followsEvents() {
		t.Errorf("weights %+v, followed %v", k, o.followsEvents())
	}
	o.KVEventsBlockSize, o.KVEventsTopic = 16, "kv"
	if c := o.configured(); c.Port != 5557 || c.BlockSize != 16 || c.Topic == nil || *c.Topic != "kv" {
		t.Errorf("configured: %+v", c)
	}
}

func TestKVSettingsThatMakeNoSenseAreAllNamed(t *testing.T) {
	err := Options{Worker: []string{"http://x"}, KVOptions: KVOptions{
		HostTierPercent: new(int), PileUpTokens: pointer(-1), PredictTTLSecs: pointer(100_000), Match: "some", IndexMaxBlocks: -1,
		KVEventsPort: 80, KVEventsBlockSize: -1, KVEventsDPSize: 257, KVEventsReplayPort: 1, KVEventsTopic: strings.Repeat("x", 257),
		KVEventsHashAlgorithm: "md5",
	}}.Validate()
	if err == nil {
		t.Fatal("accepted")
	}
	for _, part := range []string{"pileUpTokens", "predictTTLSeconds", "--match", "--index-max-blocks -1", "--kv-events-port 80",
		"--kv-events-block-size -1", "--kv-events-dp-size 257", "--kv-events-replay-port 1", "--kv-events-topic", "md5"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("the error does not mention %q:\n%v", part, err)
		}
	}
	if strings.Contains(err.Error(), "hostTierPercent") {
		t.Error("0 is a weight")
	}
	for _, o := range []KVOptions{{KVEventsHashAlgorithm: "sha256_cbor"}, {KVEventsHashSeed: "42"}} {
		if err := (Options{Worker: []string{"http://x"}, KVOptions: o}).Validate(); err == nil || !strings.Contains(err.Error(), "--kv-events-hash-seed") {
			t.Errorf("%+v: %v", o, err)
		}
	}
}

func pointer(n int) *int { return &n }
