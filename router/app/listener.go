package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"
)

const (
	// readHeaderTimeout bounds how long a client may take to send a request's head.
	readHeaderTimeout = 10 * time.Second
	// clientIdleTimeout is how long an idle client connection is kept: longer than the 60 s of common load balancers,
	// which should be the ones to close.
	clientIdleTimeout = 180 * time.Second
	// maxHeaderBytes bounds a request's head.
	maxHeaderBytes = 64 << 10
)

// newServer has no WriteTimeout, as streams last: the proxy moves each answer's write deadline on.
func newServer(h http.Handler, log *slog.Logger) *http.Server {
	return &http.Server{
		Handler:           h,
		ReadHeaderTimeout: readHeaderTimeout,
		IdleTimeout:       clientIdleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
}

// listener is an HTTP server with its socket.
type listener struct {
	app     *App
	name    string
	address string
	server  *http.Server
	socket  net.Listener
	done    chan struct{}
}

func (l *listener) addr() net.Addr { return l.socket.Addr() }

func (l *listener) start(ctx context.Context) error {
	socket, err := l.app.opts.Listen(ctx, "tcp", l.address)
	if err != nil {
		return fmt.Errorf("listen on %s: %w", l.address, err)
	}
	l.socket, l.done = socket, make(chan struct{})
	go func() {
		defer close(l.done)
		if err := l.server.Serve(socket); !errors.Is(err, http.ErrServerClosed) {
			l.app.fail(fmt.Errorf("%s listener on %s: %w", l.name, l.address, err))
		}
	}()
	return nil
}

// stop refuses new connections, closes idle ones and waits for requests in flight until ctx ends; then it cuts them.
func (l *listener) stop(ctx context.Context) error {
	err := l.server.Shutdown(ctx)
	if err != nil {
		err = fmt.Errorf("requests in flight were cut: %w", err)
		_ = l.server.Close() // The sockets are closed either way; their errors tell nothing.
	}
	<-l.done
	return err
}

// fail reports a part that ended by itself. The channel holds one error of every part that can fail.
func (a *App) fail(err error) {
	select {
	case a.failed <- err:
	default:
		a.log.Error("another part failed", "error", err)
	}
}

// job is a part that is a function running until its context ends.
type job struct {
	app    *App
	name   string
	run    func(context.Context) error
	cancel context.CancelFunc
	done   chan struct{}
}

func (j *job) start(context.Context) error {
	ctx, cancel := context.WithCancel(context.Background())
	j.cancel, j.done = cancel, make(chan struct{})
	go func() {
		defer close(j.done)
		if err := j.run(ctx); err != nil && ctx.Err() == nil {
			j.app.fail(fmt.Errorf("%s: %w", j.name, err))
		}
	}()
	return nil
}

func (j *job) stop(ctx context.Context) error {
	j.cancel()
	select {
	case <-j.done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("did not end: %w", ctx.Err())
	}
}
