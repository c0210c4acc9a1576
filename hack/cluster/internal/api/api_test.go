package api

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func serve(t *testing.T, status int, body string) *Client {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		if _, err := fmt.Fprint(w, body); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(s.Close)
	return &Client{server: s.URL, http: s.Client()}
}

func TestANodeIsReadyOnlyIfItSaysSo(t *testing.T) {
	client := serve(t, 200, `{"items":[
		{"metadata":{"name":"node1"},"status":{"conditions":[{"type":"Ready","status":"True","message":"ok"}]}},
		{"metadata":{"name":"node2"},"status":{"conditions":[{"type":"DiskPressure","status":"True"},{"type":"Ready","status":"Unknown","message":"silent"}]}},
		{"metadata":{"name":"node3"},"status":{}}]}`)
	got, err := client.Nodes(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := []Node{{"node1", true, ""}, {"node2", false, "silent"}, {"node3", false, "it has not reported yet"}}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestARefusalKeepsTheServersWordsWithinBounds(t *testing.T) {
	err := serve(t, 403, "nodes is forbidden "+strings.Repeat("x", 10_000)).Get(t.Context(), "/api/v1/nodes", nil)
	if err == nil || !strings.Contains(err.Error(), "403") || !strings.Contains(err.Error(), "nodes is forbidden") || len(err.Error()) > 1000 {
		t.Errorf("got %.2000v", err)
	}
}

func TestAnAnswerThatIsTooLargeOrNoJSONIsAnError(t *testing.T) {
	var into struct{}
	for name, body := range map[string]string{"large": strings.Repeat(" ", maxBody+1), "not JSON": "<html>"} {
		if err := serve(t, 200, body).Get(t.Context(), "/x", &into); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
