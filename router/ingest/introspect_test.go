package ingest

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/routerfleet/routerfleet/router/kvevents"
)

// pages answers an engine's requests by path; "down" in place of a page fails the request.
type pages map[string]string

// RoundTrip answers one request.
func (p pages) RoundTrip(r *http.Request) (*http.Response, error) {
	page, ok := p[r.URL.Path]
	code := 200
	switch {
	case !ok:
		code = 404
	case page == "down":
		return nil, io.ErrUnexpectedEOF
	case len(page) == 3:
		_, _ = fmt.Sscan(page, &code)
	}
	if want := p["key"]; want != "" && r.Header.Get("Authorization") != "Bearer "+want {
		code = 401
	}
	return &http.Response{StatusCode: code, Body: io.NopCloser(strings.NewReader(page)), Header: http.Header{}, Request: r}, nil
}

const metricsPage = "# TYPE process_start_time_seconds gauge\nprocess_start_time_seconds_total 9\nprocess_start_time_seconds 1.7653e+09\nrest 1\n"

func TestTheStartIsTheBestAnEngineNames(t *testing.T) {
	for name, c := range map[string]struct {
		pages     pages
		container string
		want      Start
	}{
		"/server_info, a number":        {pages{"/server_info": `{"start_time": 1765300000.25}`, "/metrics": metricsPage}, "c1", Start{Known: true, ID: "start:1765300000.25"}},
		"/server_info, a text":          {pages{"/server_info": `{"start_time": "2026-01-01"}`}, "", Start{Known: true, ID: "start:2026-01-01"}},
		"its process":                   {pages{"/server_info": `{}`, "/metrics": metricsPage}, "c1", Start{Known: true, ID: "process:1.7653e+09"}},
		"its process, no /server_info":  {pages{"/metrics": metricsPage}, "", Start{Known: true, ID: "process:1.7653e+09"}},
		"its container":                 {pages{"/metrics": "x 1\n"}, "c1", Start{Known: true, ID: "container:c1"}},
		"its container, no metrics":     {pages{}, "c1", Start{Known: true, ID: "container:c1"}},
		"none":                          {pages{}, "", Start{Known: true}},
		"unknown: metrics are down":     {pages{"/server_info": `{}`, "/metrics": "down"}, "c1", Start{}},
		"unknown: metrics fail":         {pages{"/server_info": `{}`, "/metrics": "503"}, "c1", Start{}},
		"a start of no sense":           {pages{"/server_info": `{"start_time": null}`}, "", Start{Known: true}},
		"a start of 0":                  {pages{"/server_info": `{"start_time": 0}`}, "", Start{Known: true}},
		"a start without end":           {pages{"/server_info": `{"start_time": "` + strings.Repeat("9", 65) + `"}`}, "", Start{Known: true}},
		"a line of metrics without end": {pages{"/metrics": strings.Repeat("x", 2*maxMetricLine)}, "c1", Start{}},
	} {
		f, err := NewHTTPIntrospector(c.pages).Introspect(context.Background(), Engine{URL: "http://e:8000/", Container: c.container, Configured: kvevents.Configured{Port: 5557}})
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if f.Start != c.want {
			t.Errorf("%s: %+v, want %+v", name, f.Start, c.want)
		}
	}
}

// Nobody needs the start of an engine that publishes nothing, and its metrics are no small page.
func TestAnEngineWithoutEventsIsNotAskedForItsStart(t *testing.T) {
	for _, info := range []string{"404", `{}`, `{"kv_events":{"publisher":"null"}}`} {
		f, err := NewHTTPIntrospector(pages{"/server_info": info, "/metrics": metricsPage}).Introspect(context.Background(), Engine{URL: "http://e:8000"})
		if err != nil || f.Start != (Start{}) {
			t.Errorf("%s: %+v, %v", info, f.Start, err)
		}
	}
}

func TestAnEngineThatDoesNotAnswerForItsEventsIsNotOneWithoutThem(t *testing.T) {
	for name, p := range map[string]pages{
		"down": {"/server_info": "down"}, "failing": {"/server_info": "500"}, "locked": {"/server_info": `{}`, "key": "secret"},
		"too much": {"/server_info": strings.Repeat(" ", maxInfoBytes+1)},
	} {
		if _, err := NewHTTPIntrospector(p).Introspect(context.Background(), Engine{URL: "http://e:8000"}); err == nil {
			t.Errorf("%s: no error", name)
		} else if strings.Contains(err.Error(), "http://") {
			t.Errorf("%s: the error names the URL: %v", name, err)
		}
	}
	f, err := NewHTTPIntrospector(pages{"/server_info": `{}`, "key": "secret"}).Introspect(context.Background(),
		Engine{URL: "http://e:8000", APIKey: func() string { return "secret" }})
	if err != nil || f.Info.Events != nil || f.Problem != "" {
		t.Errorf("with the key: %+v, %v", f, err)
	}
}

func TestEventSettingsOfNoSenseAreAProblem(t *testing.T) {
	f, err := NewHTTPIntrospector(pages{"/server_info": `{"kv_events": {"block_size": "many"}}`}).Introspect(context.Background(), Engine{URL: "http://e:8000"})
	if err != nil || f.Problem == "" || f.Info.Events != nil {
		t.Errorf("%+v, %v", f, err)
	}
}
