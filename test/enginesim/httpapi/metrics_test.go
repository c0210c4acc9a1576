package httpapi

import (
	"context"
	"net/http"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/routerfleet/routerfleet/test/enginesim"
)

func TestMetricsTellTheEnginesState(t *testing.T) {
	bubble(t, enginesim.Options{DPSize: 2, PageSize: 1, Blocks: 100, TokenInterval: time.Second}, Options{Model: "m"}, func(f *fixture) {
		f.post("/v1/completions", `{"prompt":"hello","max_tokens":1}`, rankHeader, "1")
		f.post("/v1/completions", `{"prompt":"hello","max_tokens":1}`, rankHeader, "1")
		res, err := f.send(context.Background(), http.MethodPost, "/v1/completions", `{"prompt":"world","stream":true,"max_tokens":5}`, rankHeader, "0")
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		got := f.do(http.MethodGet, "/metrics", "").body
		for _, want := range []string{
			`sglang:num_running_reqs{dp_rank="0",model_name="m"} 1`,
			`sglang:num_running_reqs{dp_rank="1",model_name="m"} 0`,
			`sglang:token_usage{dp_rank="0",model_name="m"} 0.1`,
			`sglang:cached_tokens_total{dp_rank="1",model_name="m"} 4`,
			`sglang:prompt_tokens_total{dp_rank="1",model_name="m"} 10`,
			`sglang:cache_hit_rate{dp_rank="1",model_name="m"} 0.4`,
			`enginesim_requests{outcome="ok"} 2`,
			`enginesim_requests{outcome="running"} 1`,
			"process_start_time_seconds ",
		} {
			if !strings.Contains(got, want) {
				t.Errorf("no %q in\n%s", want, got)
			}
		}
		f.read(res)
	})
}

func TestVLLMMetricsHaveVLLMsNames(t *testing.T) {
	bubble(t, enginesim.Options{}, Options{Dialect: VLLM, Model: "m"}, func(f *fixture) {
		got := f.do(http.MethodGet, "/metrics", "").body
		for _, want := range []string{"vllm:num_requests_running{", "vllm:num_requests_waiting{", "vllm:kv_cache_usage_perc{"} {
			if !strings.Contains(got, want) || strings.Contains(got, "sglang:") {
				t.Errorf("no %q, or SGLang's names, in\n%s", want, got)
			}
		}
	})
}

// README.md is the reference people read: every fault stands there as the
// catalogue has it.
func TestTheReadmeListsEveryFault(t *testing.T) {
	readme, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, doc := range catalogue {
		row := "| `" + string(doc.Name) + "` | " + string(doc.Scope) + " | " + strings.Join(doc.Params, ", ") + " | " + doc.Does + " |"
		if !strings.Contains(string(readme), row+"\n") {
			t.Errorf("README.md lacks the row\n%s", row)
		}
	}
}
