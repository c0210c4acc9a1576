package main

import (
	"context"
	"log/slog"
	"net/http"
	"os"
	"time"

	"github.com/routerfleet/routerfleet/test/enginesim/httpapi"
)

// shutdown ends the program after the first signal, in this order: unready,
// linger (probes and endpoints hear of it; requests are still taken), stop
// accepting, let answers finish within drain, break off the rest. A second
// signal means now.
type shutdown struct {
	api           *httpapi.Server
	signals       <-chan os.Signal
	linger, drain time.Duration
	stopEngine    context.CancelFunc
	log           *slog.Logger
}

func (s shutdown) run(server *http.Server) {
	s.log.Info("stopping", "linger", s.linger, "drain", s.drain)
	s.api.Drain()
	server.SetKeepAlivesEnabled(false) // answers say Connection: close
	ctx, cancel := context.WithTimeout(context.Background(), s.linger+s.drain)
	defer cancel()
	go func() {
		select {
		case <-s.signals:
			s.log.Warn("second signal: stopping now")
			cancel()
		case <-ctx.Done():
		}
	}()
	select {
	case <-time.After(s.linger):
	case <-ctx.Done():
	}
	if err := server.Shutdown(ctx); err != nil {
		s.log.Warn("answers were broken off", "error", err)
		s.stopEngine() // streams end with an error; handlers return
		_ = server.Close()
	}
}
