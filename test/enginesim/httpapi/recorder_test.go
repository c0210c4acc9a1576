package httpapi

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/routerfleet/routerfleet/test/enginesim"
)

func TestTheRecordTellsWhatWasSent(t *testing.T) {
	bubble(t, enginesim.Options{}, Options{}, func(f *fixture) {
		body := `{"prompt":"` + strings.Repeat("x", maxRecordedBody) + `"}`
		f.post("/v1/completions", body, "X-Custom", "yes", "Authorization", "Bearer k")
		rec := f.lastRecord()
		sum := sha256.Sum256([]byte(body))
		if rec.Method != "POST" || rec.Path != "/v1/completions" || rec.Host != "engine" || rec.Headers.Get("X-Custom") != "yes" || rec.Headers.Get("Authorization") != "Bearer k" {
			t.Errorf("got %+v", rec)
		}
		if rec.BodyBytes != len(body) || rec.BodySHA256 != hex.EncodeToString(sum[:]) || rec.Body != body[:maxRecordedBody] {
			t.Errorf("body: %d bytes, %s, first %d kept", rec.BodyBytes, rec.BodySHA256, len(rec.Body))
		}
		if rec.Status != 200 || rec.Outcome != OutcomeOK || rec.PromptTokens != maxRecordedBody || rec.CompletionTokens != 16 {
			t.Errorf("end: %+v", rec)
		}
	})
}

func TestTheRecorderForgetsTheOldestAndKeepsCounting(t *testing.T) {
	bubble(t, enginesim.Options{}, Options{}, func(f *fixture) {
		for range maxRecords + 3 {
			f.post("/v1/completions", `{`)
		}
		all := decode[map[string][]Record](t, f.do(http.MethodGet, "/control/requests", ""))["requests"]
		if len(all) != maxRecords || all[0].ID != 4 || all[len(all)-1].ID != maxRecords+3 {
			t.Errorf("%d records from #%d to #%d, want %d from #4", len(all), all[0].ID, all[len(all)-1].ID, maxRecords)
		}
		if got := f.do(http.MethodDelete, "/control/requests", ""); got.status != 204 {
			t.Errorf("forget: %d", got.status)
		}
		if st := f.state(); st.Outcomes[OutcomeRefused] != maxRecords+3 {
			t.Errorf("refused %d, want %d", st.Outcomes[OutcomeRefused], maxRecords+3)
		}
		for _, limit := range []string{"0", fmt.Sprint(maxRecords + 1), "x"} {
			if got := f.do(http.MethodGet, "/control/requests?limit="+limit, ""); got.status != 400 {
				t.Errorf("limit %s: %d, want 400", limit, got.status)
			}
		}
	})
}
