// Command enginesim runs the engine double: flags -> options -> run.
package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/alecthomas/kong"

	"github.com/routerfleet/routerfleet/internal/version"
	"github.com/routerfleet/routerfleet/test/enginesim"
	"github.com/routerfleet/routerfleet/test/enginesim/httpapi"
)

type flags struct {
	Host   string `help:"Address to listen on." default:"0.0.0.0"`
	Port   int    `help:"Port to listen on; 0 picks a free one." default:"8000"`
	Model  string `help:"Name of the served model." default:"demo-model"`
	Engine string `help:"Engine to look like: sglang or vllm." enum:"sglang,vllm" default:"sglang"`
	Name   string `help:"Name of this engine in answers and metrics." env:"POD_NAME" default:"enginesim"`
	APIKey string `help:"Bearer token that clients must send; empty: none." name:"api-key" env:"ENGINESIM_API_KEY"`

	DPSize                 int     `help:"Data-parallel ranks; each has a cache of its own." name:"dp-size" default:"1"`
	Blocks                 int     `help:"Pages of the prefix cache of one rank." default:"64000"`
	PageSize               int     `help:"Tokens of one page." default:"64"`
	PrefillTokensPerSecond float64 `help:"Prefill speed of one rank; 0: prefill takes no time." default:"8000"`
	MSPerToken             float64 `help:"Milliseconds between two tokens of an answer." name:"ms-per-token" default:"20"`
	MaxRunning             int     `help:"Sequences of one rank that run at once." default:"256"`
	MaxQueued              int     `help:"Sequences of one rank that may wait; more are answered 503." default:"4096"`
	MaxModelLen            int     `help:"Most tokens of prompt and answer together." default:"131072"`

	eventFlags
	tokenFlags

	DrainSecs     float64          `help:"After SIGTERM, seconds until unfinished answers are broken off." default:"20"`
	LingerSecs    float64          `help:"After SIGTERM, seconds to keep accepting connections while not ready." default:"0"`
	KeepAliveSecs float64          `help:"Seconds after which an idle connection is closed." default:"75"`
	LogLevel      string           `help:"debug, info, warn or error." enum:"debug,info,warn,error" default:"info"`
	Version       kong.VersionFlag `help:"Print the version and leave."`
}

func main() {
	var f flags
	kong.Parse(&f, kong.Name("enginesim"), kong.Vars{"version": version.Version, "dialects": dialects()},
		kong.Description("An LLM engine double: OpenAI-style HTTP, a prefix cache, timing and faults, no model."))
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	if err := run(f, signals); err != nil {
		fmt.Fprintln(os.Stderr, "enginesim:", err)
		os.Exit(1)
	}
}

// run serves until a signal has come and everything has ended.
func run(f flags, signals <-chan os.Signal) error {
	log := newLogger(f.LogLevel)
	tokenizer, err := f.loadTokenizer()
	if err != nil {
		return err
	}
	engine, events, err := f.newEngine(log)
	if err != nil {
		return err
	}
	options := httpapi.Options{
		Engine: engine, Model: f.Model, Dialect: httpapi.Dialect(f.Engine), Name: f.Name,
		MaxModelLen: f.MaxModelLen, APIKey: f.APIKey, Exit: os.Exit, Log: log,
		Tokenizer: tokenizer, NoTokenize: !f.Tokenize,
	}
	if events != nil {
		options.Events = events.Publisher()
	}
	api, err := httpapi.New(options)
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", net.JoinHostPort(f.Host, strconv.Itoa(f.Port)))
	if err != nil {
		return fmt.Errorf("listen for requests: %w", err)
	}
	log.Info("serving", "address", listener.Addr().String(), "model", f.Model, "engine", f.Engine, "name", f.Name, "version", version.Version)

	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	var ranks sync.WaitGroup
	ranks.Go(func() { _ = engine.Run(ctx) }) // only ever ends with ctx
	if events != nil {
		ranks.Go(func() {
			if err := events.Run(ctx, engine); ctx.Err() == nil {
				log.Error("events are published no more", "error", err)
			}
		})
	}
	err = serve(httpapi.NewHTTPServer(api.Handler(), seconds(f.KeepAliveSecs)), listener, shutdown{
		api: api, signals: signals, linger: seconds(f.LingerSecs), drain: seconds(f.DrainSecs), stopEngine: stop, log: log,
	})
	stop()
	ranks.Wait()
	return err
}

// serve runs the HTTP server and, once a signal comes, the shutdown.
func serve(server *http.Server, listener net.Listener, plan shutdown) error {
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(listener) }()
	select {
	case err := <-failed:
		return fmt.Errorf("serve on %s: %w", listener.Addr(), err)
	case <-plan.signals:
	}
	plan.run(server)
	if err := <-failed; !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve on %s: %w", listener.Addr(), err)
	}
	return nil
}

func (f flags) engineOptions() enginesim.Options {
	return enginesim.Options{
		DPSize: f.DPSize, Blocks: f.Blocks, PageSize: f.PageSize,
		PrefillTokensPerSecond: f.PrefillTokensPerSecond,
		TokenInterval:          time.Duration(f.MSPerToken * float64(time.Millisecond)),
		MaxRunning:             f.MaxRunning, MaxQueued: f.MaxQueued, Bigram: f.Bigram,
	}
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

func newLogger(level string) *slog.Logger {
	var l slog.Level
	if err := l.UnmarshalText([]byte(level)); err != nil {
		l = slog.LevelInfo // kong's enum admits only known levels
	}
	return slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: l}))
}
