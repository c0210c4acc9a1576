package telemetry

import (
	"bytes"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

func TestALoggerWritesItsFormatFromItsLevelUp(t *testing.T) {
	for _, c := range []struct {
		level, format string
		lines         int
	}{{"", "", 3}, {"debug", "text", 4}, {"info", "json", 3}, {"WARN", "json", 2}, {"error", "text", 1}} {
		var out bytes.Buffer
		log, err := NewLogger(&out, c.level, c.format)
		if err != nil {
			t.Fatalf("%s %s: %v", c.level, c.format, err)
		}
		log.Debug("d")
		log.Info("i")
		log.Warn("w")
		log.Error("e", "worker", "ns/pod")
		lines := strings.Split(strings.TrimSpace(out.String()), "\n")
		if len(lines) != c.lines {
			t.Errorf("%s %s: got %d lines, want %d", c.level, c.format, len(lines), c.lines)
		}
		var doc map[string]any
		isJSON := json.Unmarshal([]byte(lines[len(lines)-1]), &doc) == nil
		if isJSON != (c.format == FormatJSON) {
			t.Errorf("%s %s: got %q", c.level, c.format, lines[len(lines)-1])
		}
	}
}

func TestAWrongLevelAndFormatAreBothReported(t *testing.T) {
	_, err := NewLogger(&bytes.Buffer{}, "loud", "xml")
	if err == nil || !strings.Contains(err.Error(), `"loud"`) || !strings.Contains(err.Error(), `"xml"`) {
		t.Fatalf("got %v", err)
	}
	if _, err := NewLogger(&bytes.Buffer{}, "loud", "text"); err == nil {
		t.Fatal("a wrong level alone was taken")
	}
}

func scrape(t *testing.T, reg *prometheus.Registry, log *slog.Logger) string {
	t.Helper()
	w := httptest.NewRecorder()
	Handler(reg, log).ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	if w.Code != 200 {
		t.Fatalf("scrape answered %d: %s", w.Code, w.Body)
	}
	return w.Body.String()
}

func TestARegistrySaysWhatIsRunning(t *testing.T) {
	reg := NewRegistry("router", "v1.2.3")
	got := scrape(t, reg, slog.New(slog.DiscardHandler))
	for _, want := range []string{`routerfleet_build_info{`, `program="router"`, `version="v1.2.3"`, "go_goroutines", "process_start_time_seconds"} {
		if !strings.Contains(got, want) {
			t.Errorf("%s is missing", want)
		}
	}
	NewRegistry("router", "v1.2.3") // a second one must not collide: there are no globals
}

type broken struct{ desc *prometheus.Desc }

func (b broken) Describe(ch chan<- *prometheus.Desc) { ch <- b.desc }
func (b broken) Collect(ch chan<- prometheus.Metric) {
	ch <- prometheus.NewInvalidMetric(b.desc, errors.New("sensor on fire"))
}

func TestABrokenCollectorHidesNothingAndIsLogged(t *testing.T) {
	reg := NewRegistry("router", "dev")
	reg.MustRegister(broken{prometheus.NewDesc("routerfleet_broken", "never", nil, nil)})
	var log bytes.Buffer
	got := scrape(t, reg, slog.New(slog.NewTextHandler(&log, nil)))
	if !strings.Contains(got, "routerfleet_build_info") || !strings.Contains(log.String(), "sensor on fire") {
		t.Fatalf("log %q, answer of %d bytes", log.String(), len(got))
	}
}

func TestForgettingAWorkerEndsItsSeriesAndNoOthers(t *testing.T) {
	reg := prometheus.NewRegistry()
	var series WorkerSeries
	a := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "a_total"}, []string{WorkerLabel, "outcome"})
	b := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "b"}, []string{WorkerLabel})
	if err := errors.Join(series.Register(reg, a), series.Register(reg, b)); err != nil {
		t.Fatal(err)
	}
	if err := series.Register(reg, b); err == nil {
		t.Fatal("a vector was registered twice")
	}
	for _, w := range []string{"ns/one", "ns/two"} {
		a.WithLabelValues(w, "success").Inc()
		a.WithLabelValues(w, "error").Inc()
		b.WithLabelValues(w).Set(1)
	}
	if got := series.Forget("ns/one"); got != 3 {
		t.Fatalf("deleted %d series, want 3", got)
	}
	out := scrape(t, reg, slog.New(slog.DiscardHandler))
	if strings.Contains(out, "ns/one") || strings.Count(out, "ns/two") != 3 {
		t.Fatalf("got\n%s", out)
	}
	if got := series.Forget("ns/one"); got != 0 {
		t.Fatalf("a second time deleted %d", got)
	}
}
