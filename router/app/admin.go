package app

import (
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/routerfleet/routerfleet/internal/signed"
	"github.com/routerfleet/routerfleet/router/snapshot"
	"github.com/routerfleet/routerfleet/router/telemetry"
)

// adminHandler serves the admin listener. Probes and metrics are open; /internal takes signed calls of the fleet, or a
// bearer for reading.
func (a *App) adminHandler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { text(w, http.StatusOK, "ok") })
	mux.HandleFunc("GET /readyz", a.readyz)
	mux.Handle("GET /metrics", telemetry.Handler(a.registry, a.log))
	internal := http.NewServeMux()
	internal.HandleFunc("GET /internal/bootstrap", a.bootstrap)
	var guard signed.Options
	if a.tokens != nil {
		guard.Keys, guard.Bearers = a.tokens.Keys, a.tokens.Bearers
	}
	mux.Handle("/internal/", signed.Handler(internal, guard))
	if a.sharing != nil {
		mux.Handle(snapshot.Path, a.sharing) // it signs by itself: a snapshot is signed at its end
	}
	return mux
}

func (a *App) readyz(w http.ResponseWriter, _ *http.Request) {
	switch {
	case a.draining.Load():
		text(w, http.StatusServiceUnavailable, "shutting down")
	case a.ready.Load():
		text(w, http.StatusOK, "ready")
	default:
		text(w, http.StatusServiceUnavailable, a.waitingFor())
	}
}

// waitingFor says why a router that was never ready is not.
func (a *App) waitingFor() string {
	if ok, why := a.booted(); !ok && usable(a.workers.Snapshot()) {
		return why
	}
	return "waiting for the first usable worker: " + a.workers.Explain()
}

func (a *App) bootstrap(w http.ResponseWriter, r *http.Request) {
	s := a.status()
	if r.URL.Query().Get("detail") == "ranks" && a.sharing != nil {
		s.RankRows = a.sharing.rows()
	}
	body, err := json.Marshal(s)
	if err != nil {
		a.log.Error("encode bootstrap status", "error", err)
		text(w, http.StatusInternalServerError, "the status cannot be encoded")
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(body) // A caller that is gone needs no answer.
}

func text(w http.ResponseWriter, status int, line string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	_, _ = fmt.Fprintln(w, line) // A prober that is gone needs no answer.
}
