// Package telemetry builds what the other rooms report through: the metrics registry and the logger. It keeps no
// global state, and whoever wants a registry or a logger is given one.
//
// Metric names begin with routerfleet_, units are seconds and bytes, every label set is a closed list or dies with
// its worker (WorkerSeries).
package telemetry

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"runtime"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Log formats.
const (
	FormatText = "text"
	FormatJSON = "json"
)

// NewLogger returns a logger that writes to w. level is debug, info, warn or error, format is text or json; empty
// means info and text. Both mistakes are reported at once.
func NewLogger(w io.Writer, level, format string) (*slog.Logger, error) {
	at, levelErr := parseLevel(level)
	opts := &slog.HandlerOptions{Level: at}
	switch format {
	case FormatText, "":
		return slog.New(slog.NewTextHandler(w, opts)), levelErr
	case FormatJSON:
		return slog.New(slog.NewJSONHandler(w, opts)), levelErr
	}
	return nil, errors.Join(levelErr, fmt.Errorf("log format %q is unknown: use %s or %s", format, FormatText, FormatJSON))
}

func parseLevel(s string) (slog.Level, error) {
	switch strings.ToLower(s) {
	case "debug":
		return slog.LevelDebug, nil
	case "info", "":
		return slog.LevelInfo, nil
	case "warn", "warning":
		return slog.LevelWarn, nil
	case "error":
		return slog.LevelError, nil
	}
	return slog.LevelInfo, fmt.Errorf("log level %q is unknown: use debug, info, warn or error", s)
}

// NewRegistry returns a registry with the Go runtime, the process and routerfleet_build_info in it.
func NewRegistry(program, version string) *prometheus.Registry {
	reg := prometheus.NewRegistry()
	reg.MustRegister( // a fresh registry: only a bug can make this fail
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		buildInfo(program, version),
	)
	return reg
}

func buildInfo(program, version string) prometheus.Collector {
	g := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "routerfleet_build_info",
		Help: "Always 1; what is running is in the labels.",
		ConstLabels: prometheus.Labels{
			"program": program, "version": version, "goversion": runtime.Version(),
		},
	})
	g.Set(1)
	return g
}

// Handler serves the registry in the Prometheus text format. A collector that fails does not hide the others; its
// error goes to the log.
func Handler(reg *prometheus.Registry, log *slog.Logger) http.Handler {
	return promhttp.HandlerFor(reg, promhttp.HandlerOpts{
		ErrorLog:      slog.NewLogLogger(log.Handler(), slog.LevelError),
		ErrorHandling: promhttp.ContinueOnError,
		Registry:      reg,
	})
}
