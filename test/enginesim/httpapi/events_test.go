package httpapi

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/routerfleet/routerfleet/test/enginesim"
	"github.com/routerfleet/routerfleet/test/enginesim/publish"
)

// published is a sink that keeps seqs.
type published struct {
	mu   sync.Mutex // guards all below
	seqs []int64
	cuts int
}

func (p *published) Publish(_ int, m publish.Message) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.seqs = append(p.seqs, m.Seq)
}

func (p *published) Restarted(_ int, cut bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if cut {
		p.cuts++
	}
}

func (p *published) text() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return fmt.Sprint(p.seqs)
}

// publishing runs test against a double of pages of 4 tokens that publishes.
func publishing(t *testing.T, test func(*fixture, *published)) {
	t.Helper()
	sink := &published{}
	events, err := publish.New(publish.Options{
		PageSize: 4, Sink: sink, Ports: publish.Ports{Events: 5557, Replay: 5657, Load: 5757},
	})
	if err != nil {
		t.Fatal(err)
	}
	bubble(t, enginesim.Options{PageSize: 4, Observer: events}, Options{Events: events}, func(f *fixture) { test(f, sink) })
}

// eventExamples sets each fault of events, with every parameter it has.
var eventExamples = map[publish.FaultName]string{
	publish.Drop:           `"rank":0,"batches":2`,
	publish.Lose:           `"rank":0,"batches":2`,
	publish.Duplicate:      `"rank":0,"batches":2`,
	publish.BadFrames:      `"rank":0,"batches":2,"frames":65536`,
	publish.ShortSeq:       `"rank":0,"batches":2`,
	publish.Garbage:        `"rank":0,"batches":2,"bytes":100`,
	publish.Torn:           `"rank":0,"batches":2`,
	publish.Pairs:          `"rank":0,"batches":2`,
	publish.LongTokens:     `"rank":0,"batches":2,"count":1000`,
	publish.LongHashes:     `"rank":0,"batches":2,"count":65537`,
	publish.UnknownEvent:   `"rank":0,"batches":2`,
	publish.UnknownField:   `"rank":0,"batches":2`,
	publish.WrongBlock:     `"rank":0,"batches":2,"block_size":16`,
	publish.WrongRank:      `"rank":0,"batches":2,"dp_rank":3`,
	publish.Contradict:     `"rank":0,"batches":2`,
	publish.Cycle:          `"rank":0,"batches":2`,
	publish.Hang:           `"rank":0`,
	publish.Clock:          `"rank":0,"offset_ms":-2000`,
	publish.ForeignGroup:   `"rank":0`,
	publish.Copies:         `"rank":0`,
	publish.ReplayReorder:  `"rank":0`,
	publish.ReplaySlow:     `"rank":0,"delay_ms":10`,
	publish.ReplayTruncate: `"rank":0,"after_batches":1`,
	publish.ReplaySilent:   `"rank":0`,
	publish.LoadSilent:     `"rank":0`,
	publish.Advertise:      `"host":"192.0.2.7","event_port":9,"dp_size":60000,"block_size":3`,
}

// Without the promise a fault would sometimes meet the end of a request that was answered before it was set.
func TestAFaultOfEventsMeetsNothingThatWasAnsweredBefore(t *testing.T) {
	for range 50 {
		publishing(t, func(f *fixture, sink *published) {
			f.post("/v1/completions", `{"prompt":"hello, world","max_tokens":1}`)
			f.fault(`{"name":"kv_drop"}`)
			if got := f.told(sink); got != "[0]" || f.state().Hits["kv_drop"] != 0 {
				t.Fatalf("published %s, hits %v", got, f.state().Hits)
			}
		})
	}
}

// What each fault does is proved in package publish.
func TestEveryFaultOfEventsIsHandedOnWhole(t *testing.T) {
	publishing(t, func(f *fixture, _ *published) {
		for _, doc := range eventCatalogue {
			if doc.Name == FaultBabble {
				continue
			}
			example, there := eventExamples[publish.FaultName(doc.Name)]
			if !there {
				t.Errorf("%s: no example", doc.Name)
				continue
			}
			for _, name := range doc.Params {
				if !strings.Contains(example, `"`+name+`":`) {
					t.Errorf("%s: the example lacks %s", doc.Name, name)
				}
			}
			body := `{"name":"` + string(doc.Name) + `",` + example + `}`
			f.fault(body)
			active := f.state().Faults
			if len(active) != 1 || string(mustJSON(active[0])) != string(mustJSON(decode[Fault](t, answered{status: 200, body: body}))) {
				t.Errorf("set %s, active is %s", body, mustJSON(active))
			}
			if got := f.do(http.MethodDelete, "/control/faults/"+string(doc.Name), ""); got.status != 200 || len(f.state().Faults) != 0 {
				t.Errorf("%s: not deleted: %d", doc.Name, got.status)
			}
		}
	})
}

func TestFaultsOfEventsTakeEffectAndAreCounted(t *testing.T) {
	publishing(t, func(f *fixture, sink *published) {
		f.post("/v1/completions", `{"prompt":"hello, world","max_tokens":1}`)
		f.fault(`{"name":"kv_drop","batches":1}`)
		f.post("/v1/completions", `{"prompt":"another one","max_tokens":1}`)
		f.post("/v1/completions", `{"prompt":"and a third","max_tokens":1}`)
		if got := f.told(sink); got != "[0 2]" {
			t.Errorf("published %s, want the second dropped", got)
		}
		if st := f.state(); st.Hits["kv_drop"] != 1 || len(st.Faults) != 0 || len(st.NextSeqs) != 1 || st.NextSeqs[0] != 3 {
			t.Errorf("hits %v, active %v", st.Hits, st.Faults)
		}
		f.fault(`{"name":"kv_hang"}`)
		f.post("/v1/completions", `{"prompt":"kept back","max_tokens":1}`)
		if got := f.told(sink); got != "[0 2]" {
			t.Errorf("a rank that hangs published %s", got)
		}
		f.do(http.MethodDelete, "/control/faults", "")
		if got := f.told(sink); got != "[0 2 3]" {
			t.Errorf("afterwards %s", got)
		}
		f.fault(`{"name":"kv_babble","batches":3,"count":10}`)
		if got := f.told(sink); got != "[0 2 3 4 5 6]" || f.state().Hits[FaultBabble] != 1 {
			t.Errorf("after babbling %s", got)
		}
	})
}

func TestFaultsOfEventsAreJudged(t *testing.T) {
	publishing(t, func(f *fixture, _ *published) {
		for body, want := range map[string]string{
			`{"name":"kv_frames"}`:                                  "frames must be 1 to",
			`{"name":"kv_frames","frames":65537}`:                   "frames must be 1 to",
			`{"name":"kv_drop","frames":2}`:                         "takes no frames",
			`{"name":"kv_drop","rank":-1}`:                          "rank must be 0 to 255",
			`{"name":"kv_drop","rank":1}`:                           "ranks 0 to 0",
			`{"name":"kv_drop","batches":1000001}`:                  "batches must be",
			`{"name":"kv_hang","batches":1}`:                        "takes no batches",
			`{"name":"kv_replay_slow"}`:                             "delay_ms must be",
			`{"name":"kv_clock"}`:                                   "offset_ms must be",
			`{"name":"kv_clock","offset_ms":86400001}`:              "offset_ms must be",
			`{"name":"kv_garbage","bytes":33554433}`:                "bytes must be",
			`{"name":"kv_advertise","block_size":-1}`:               "block_size must be",
			`{"name":"kv_block_size"}`:                              "block_size must be",
			`{"name":"kv_babble","count":1}`:                        "batches must be",
			`{"name":"kv_babble","batches":100000,"count":1000000}`: "in all",
			`{"name":"restart","seq":-1}`:                           "seq must be",
		} {
			if got := f.post("/control/faults", body); got.status != 400 || !strings.Contains(got.body, want) {
				t.Errorf("%s: %d %s; want 400 with %q", body, got.status, got.body, want)
			}
		}
	})
	bubble(t, enginesim.Options{}, Options{}, func(f *fixture) {
		for _, body := range []string{`{"name":"kv_drop"}`, `{"name":"kv_babble","batches":1,"count":1}`} {
			if got := f.post("/control/faults", body); got.status != 400 || !strings.Contains(got.body, "publishes no events") {
				t.Errorf("without events: %d %s", got.status, got.body)
			}
		}
	})
}

func TestServerInfoAdvertisesTheEvents(t *testing.T) {
	type info struct {
		Events      *publish.Advertisement `json:"kv_events"`
		Speculative *string                `json:"speculative_algorithm"`
	}
	publishing(t, func(f *fixture, _ *published) {
		want := publish.Advertisement{
			Publisher: "zmq", Host: "*", Port: 5557, BlockSize: 4, DPSize: 1, LoadPort: 5757, LoadTopic: "load", ReplayPort: 5657,
		}
		got := decode[info](t, f.do(http.MethodGet, "/server_info", ""))
		if got.Events == nil || *got.Events != want || got.Speculative != nil {
			t.Errorf("got %+v", got)
		}
		f.fault(`{"name":"kv_advertise","host":"192.0.2.7","dp_size":60000}`)
		want.Host, want.DPSize = "192.0.2.7", 60_000
		if got := decode[info](t, f.do(http.MethodGet, "/server_info", "")); *got.Events != want || f.state().Hits["kv_advertise"] != 1 {
			t.Errorf("by fault: %+v", got.Events)
		}
	})
	bubble(t, enginesim.Options{Bigram: true}, Options{}, func(f *fixture) {
		if got := decode[info](t, f.do(http.MethodGet, "/server_info", "")); got.Events != nil || got.Speculative == nil || *got.Speculative != "EAGLE" {
			t.Errorf("pairs without events: %+v", got)
		}
	})
}

func TestEventsOfAnotherEngineAreRefused(t *testing.T) {
	events, err := publish.New(publish.Options{Dialect: publish.VLLMMap, Sink: &published{}})
	if err != nil {
		t.Fatal(err)
	}
	engine, err := enginesim.New(enginesim.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := New(Options{Engine: engine, Model: "m", Events: events}); err == nil || !strings.Contains(err.Error(), "vllm-map") {
		t.Errorf("got %v", err)
	}
}

// testRestart is the proof of fault restart; what events show of it is proved in
// package publish.
func testRestart(t *testing.T) {
	publishing(t, func(f *fixture, sink *published) {
		start := func() float64 {
			return decode[struct {
				Start float64 `json:"start_time"`
			}](t, f.do(http.MethodGet, "/server_info", "")).Start
		}
		before, gauge := start(), f.do(http.MethodGet, "/metrics", "").body
		f.post("/v1/completions", `{"prompt":"hello, world","max_tokens":20}`)
		f.fault(`{"name":"restart","seq":5,"end_seq":true,"cut":true}`)
		st := f.state()
		if start() <= before || !st.StartedAt.After(epochOf(before)) || st.Ranks[0].Blocks.Cached != 0 || st.Totals.Restarts != 1 {
			t.Errorf("start %v before, %v after; %d blocks are cached", before, start(), st.Ranks[0].Blocks.Cached)
		}
		if line(gauge, "process_start_time_seconds ") == line(f.do(http.MethodGet, "/metrics", "").body, "process_start_time_seconds ") {
			t.Error("the metric of the start stays what it was")
		}
		f.post("/v1/completions", `{"prompt":"hello, world","max_tokens":1}`)
		if got := f.told(sink); !strings.HasSuffix(got, " -1 5]") || sink.cuts != 1 || f.lastRecord().CachedTokens != 0 {
			t.Errorf("published %s, %d cuts", got, sink.cuts)
		}
	})
}

func epochOf(seconds float64) time.Time { return time.UnixMicro(int64(seconds * 1e6)) }

// line is the one that begins with prefix.
func line(text, prefix string) string {
	for l := range strings.Lines(text) {
		if strings.HasPrefix(l, prefix) {
			return l
		}
	}
	return ""
}

// told is what was published once every rank has told of its last step: a request's comes after its answer has ended, and
// a rank answers for its state after that.
func (f *fixture) told(sink *published) string {
	f.state()
	return sink.text()
}
