package httpapi

import (
	"context"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/routerfleet/routerfleet/test/enginesim"
)

// A client may leave before the first byte, in mid stream, or while it waits for
// a plain body: the engine must be free at once each time.
func TestAClientThatLeavesFreesTheEngineAtOnce(t *testing.T) {
	slow := enginesim.Options{PrefillTokensPerSecond: 10, TokenInterval: time.Second, DPSize: 2}
	for name, c := range map[string]struct {
		body     string
		wait     time.Duration
		produced int
	}{
		"before the first byte": {`{"prompt":"ten tokens","stream":true,"max_tokens":60}`, 500 * time.Millisecond, 0},
		"in mid stream":         {`{"prompt":"ten tokens","stream":true,"max_tokens":60}`, 2500 * time.Millisecond, 2},
		"before a plain body":   {`{"prompt":"ten tokens","max_tokens":60}`, 2500 * time.Millisecond, 2},
		"one of a batch":        {`{"prompt":["ten tokens","ten others"],"stream":true,"max_tokens":60}`, 1500 * time.Millisecond, 2},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, slow, Options{}, func(f *fixture) {
				ctx, leave := context.WithCancel(context.Background())
				left := make(chan struct{})
				go func() {
					defer close(left)
					if res, err := f.send(ctx, "POST", "/v1/completions", c.body); err == nil {
						_, _ = io.Copy(io.Discard, res.Body)
						_ = res.Body.Close()
					}
				}()
				<-time.After(c.wait)
				leave()
				<-left
				synctest.Wait()
				st, rec := f.state(), f.lastRecord()
				if st.Running != 0 || st.Queued != 0 || st.Totals.Aborted == 0 || st.Outcomes[OutcomeRunning] != 0 {
					t.Errorf("running %d queued %d aborted %d: want an idle engine and an abort", st.Running, st.Queued, st.Totals.Aborted)
				}
				if rec.Outcome != OutcomeClientGone || rec.Seconds != c.wait.Seconds() || rec.CompletionTokens != c.produced {
					t.Errorf("outcome %s after %v s and %d tokens; want client_gone after %v and %d", rec.Outcome, rec.Seconds, rec.CompletionTokens, c.wait, c.produced)
				}
			})
		})
	}
}

func TestAnEngineThatStopsBreaksTheStreamInsteadOfEndingIt(t *testing.T) {
	bubble(t, enginesim.Options{}, Options{}, func(f *fixture) {
		// A second engine, so that the fixture's own can outlive the test.
		engine, err := enginesim.New(enginesim.Options{TokenInterval: time.Second})
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(context.Background())
		ended := make(chan struct{})
		go func() { defer close(ended); _ = engine.Run(ctx) }()
		f.server.opts.Engine = engine
		time.AfterFunc(2500*time.Millisecond, stop)
		res, err := f.send(context.Background(), "POST", "/v1/completions", `{"prompt":"x","stream":true,"max_tokens":60}`)
		if err != nil {
			t.Fatal(err)
		}
		got := f.read(res)
		if got.err == nil || len(events(got.body)) != 3 {
			t.Errorf("got %d events and error %v; want 3 and a broken body", len(events(got.body)), got.err)
		}
		<-ended
		if got := f.post("/v1/completions", `{"prompt":"x"}`); got.status != 503 {
			t.Errorf("a stopped engine answers %d, want 503", got.status)
		}
	})
}
