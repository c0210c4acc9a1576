package httpapi

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/routerfleet/routerfleet/test/enginesim"
)

func TestUnknownFaultsAndParametersAreRefused(t *testing.T) {
	bubble(t, enginesim.Options{}, Options{}, func(f *fixture) {
		for body, want := range map[string]string{
			`{"name":"nope"}`:                                   "the faults are: health_fail, ready_fail,",
			`{}`:                                                "the faults are:",
			`{"name":"cut","colour":"red"}`:                     "unknown field",
			`{"name":"cut","status":500}`:                       "takes no status",
			`{"name":"health_fail","requests":1}`:               "takes no requests",
			`{"name":"status"}`:                                 "status must be 400 to 599",
			`{"name":"status","status":399}`:                    "400 to 599",
			`{"name":"status","status":600}`:                    "400 to 599",
			`{"name":"status","status":500,"requests":-1}`:      "requests must be",
			`{"name":"status","status":500,"requests":1000001}`: "requests must be",
			`{"name":"delay_headers"}`:                          "delay_ms must be",
			`{"name":"delay_headers","delay_ms":3600001}`:       "delay_ms must be",
			`{"name":"cut","after_chunks":-1}`:                  "after_chunks must be",
			`{"name":"slow_tokens","factor":-2}`:                "factor must be",
			`{"name":"slow_tokens","factor":10001}`:             "factor must be",
			`{"name":"split_sse"}`:                              "chunk_bytes must be",
			`{"name":"sse_lines","line_end":"nl"}`:              "lf, crlf or cr",
			`{"name":"wrong_length"}`:                           "length_delta must be",
			`{"name":"model_lie"}`:                              "model must be",
			`{"name":"crash","exit_code":256}`:                  "exit_code must be",
			`[]`:                                                "not a fault",
		} {
			if got := f.post("/control/faults", body); got.status != 400 || !strings.Contains(got.body, want) {
				t.Errorf("%s: %d %s; want 400 with %q", body, got.status, got.body, want)
			}
		}
		if got := f.do(http.MethodDelete, "/control/faults/nope", ""); got.status != 400 {
			t.Errorf("removing an unknown fault: %d, want 400", got.status)
		}
		if got := f.post("/control/faults", `{"name":"`+strings.Repeat("x", maxControlBytes)+`"}`); got.status != 413 {
			t.Errorf("a huge fault: %d, want 413", got.status)
		}
		if st := f.state(); len(st.Faults) != 0 {
			t.Errorf("active after nothing but refusals: %v", st.Faults)
		}
	})
}

func TestFaultsOfTheLimitsThemselvesAreTaken(t *testing.T) {
	bubble(t, enginesim.Options{}, Options{}, func(f *fixture) {
		for _, body := range []string{
			`{"name":"status","status":400,"requests":1000000,"retry_after_seconds":3600}`,
			`{"name":"status","status":599}`,
			`{"name":"delay_headers","delay_ms":3600000}`,
			`{"name":"slow_tokens","factor":10000}`,
			`{"name":"split_sse","chunk_bytes":1048576}`,
		} {
			f.fault(body)
		}
		if got := f.state().Faults; len(got) != 4 {
			t.Errorf("active: %v, want 4 (the second status replaced the first)", got)
		}
	})
}

func TestEveryParameterBelongsToAFault(t *testing.T) {
	var documented []string
	for _, doc := range catalogue {
		documented = append(documented, doc.Params...)
	}
	for _, p := range (Fault{}).params() {
		if !slices.Contains(documented, p.name) {
			t.Errorf("no fault takes %s", p.name)
		}
		documented = slices.DeleteFunc(documented, func(name string) bool { return name == p.name })
	}
	if len(documented) > 0 {
		t.Errorf("documented parameters that are not checked: %v", documented)
	}
}
