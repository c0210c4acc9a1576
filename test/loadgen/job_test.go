package loadgen

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/routerfleet/routerfleet/test/data/traces"
)

func drainSource(next source) []job {
	var all []job
	for j, more := next(); more; j, more = next() {
		all = append(all, j)
	}
	return all
}

func TestATraceRequestCarriesThePromptOfItsBlocks(t *testing.T) {
	r := traces.Request{InputLength: 700, OutputLength: 500, Blocks: []uint32{0, 9}}
	got := traceRequest(r, `mo"del`, 32)
	var body struct {
		Model     string
		Prompt    []uint32
		Stream    bool
		MaxTokens int `json:"max_tokens"`
	}
	if err := json.Unmarshal(got.body, &body); err != nil {
		t.Fatalf("%v in %s", err, got.body)
	}
	if body.Model != `mo"del` || !body.Stream || body.MaxTokens != 32 || !slices.Equal(body.Prompt, r.Prompt()) {
		t.Errorf("model %q, stream %v, max_tokens %d, %d tokens", body.Model, body.Stream, body.MaxTokens, len(body.Prompt))
	}
	if got.promptTokens != 700 || got.outputTokens != 32 || !got.stream {
		t.Errorf("expectations %+v", got)
	}
	if traceRequest(r, "m", 0).outputTokens != 500 || traceRequest(traces.Request{InputLength: 1, Blocks: []uint32{0}}, "m", 0).outputTokens != 1 {
		t.Error("without a cap an answer has the trace's length, and at least one token")
	}
}

func TestSteadyRequestsDifferAndCoverEveryShape(t *testing.T) {
	next := first(6, steadySource(Options{MaxOutput: 8}, "m"))
	seen, shapes := map[string]bool{}, map[string]int{}
	for _, j := range drainSource(next) {
		r := j.build()
		if !json.Valid(r.body) || seen[string(r.body)] {
			t.Errorf("invalid or repeated body %s", r.body)
		}
		seen[string(r.body)] = true
		if strings.Contains(string(r.body), `"stream":true`) != r.stream {
			t.Errorf("stream %v is not what the body says: %s", r.stream, r.body)
		}
		shape := r.route
		if r.stream {
			shape += " streamed"
		}
		shapes[shape]++
	}
	if shapes["/v1/chat/completions streamed"] != 2 || shapes["/v1/completions streamed"] != 2 || shapes["/v1/chat/completions"] != 2 {
		t.Errorf("shapes %v", shapes)
	}
}

func TestPacedRequestsGoOutAtTheirTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		requests := []traces.Request{{At: 0}, {At: 3 * time.Second}, {At: 3 * time.Second}, {At: 10 * time.Second}}
		r := &run{begin: time.Now()}
		jobs := make(chan job)
		go func() {
			defer close(jobs)
			r.dispatch(context.Background(), traceSource(requests, Options{Speed: 2}, "m"), jobs)
		}()
		var at []time.Duration
		for range jobs {
			at = append(at, time.Since(r.begin))
		}
		if want := []time.Duration{0, 1500 * time.Millisecond, 1500 * time.Millisecond, 5 * time.Second}; !slices.Equal(at, want) {
			t.Errorf("sent at %v, want %v", at, want)
		}
	})
}

func TestDispatchStopsWhenTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		r := &run{begin: time.Now()}
		r.dispatch(ctx, traceSource([]traces.Request{{At: time.Hour}}, Options{Speed: 1}, "m"), make(chan job))
		if got := time.Since(r.begin); got != time.Minute {
			t.Errorf("returned after %v, want a minute", got)
		}
	})
}

func TestOnlyPacedJobsCanBeLate(t *testing.T) {
	for _, c := range []struct {
		job  job
		want time.Duration
	}{
		{job{due: 3 * time.Second, paced: true}, 2 * time.Second},
		{job{due: 6 * time.Second, paced: true}, 0},
		{job{}, 0},
	} {
		if got := c.job.late(5 * time.Second); got != c.want {
			t.Errorf("%+v sent at 5s: %v late, want %v", c.job, got, c.want)
		}
	}
}
