package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"

	"github.com/routerfleet/routerfleet/router/app"
	"github.com/routerfleet/routerfleet/router/proxy"
)

// serve runs one role until SIGTERM. It prints its address as the first line of its output.
func serve(role string, args []string) error {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGTERM)
	switch {
	case role == "engine" && len(args) == 1:
		return serveEngine(args[0], signals)
	case role == "reverse-proxy" && len(args) == 1:
		return serveReverseProxy(args[0], signals)
	case role == "router" && len(args) == 1:
		return serveRouter(args[0], signals)
	}
	return fmt.Errorf("unknown role %q with %d arguments", role, len(args))
}

func listenLoopback() (net.Listener, error) { return net.Listen("tcp", "127.0.0.1:0") }

func announce(a net.Addr) { _, _ = fmt.Fprintln(os.Stdout, a) } // a parent that is gone ends this process soon

func serveReverseProxy(engine string, signals <-chan os.Signal) error {
	target, err := url.Parse(engine)
	if err != nil {
		return err
	}
	// The same transport as the router's: the handler is compared, not the connection pool.
	handler := &httputil.ReverseProxy{
		Transport: proxy.NewTransport(),
		Rewrite:   func(r *httputil.ProxyRequest) { r.SetURL(target) },
	}
	l, err := listenLoopback()
	if err != nil {
		return err
	}
	server := &http.Server{Handler: handler}
	announce(l.Addr())
	go func() { <-signals; _ = server.Close() }()
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

func serveRouter(engine string, signals <-chan os.Signal) error {
	a, err := app.New(app.Options{
		Worker: []string{"engine=" + engine}, ShutdownLingerSecs: -1, ShutdownDrainSecs: -1, LogLevel: "error",
		Listen: func(context.Context, string, string) (net.Listener, error) { return listenLoopback() },
	})
	if err != nil {
		return err
	}
	go func() {
		<-a.Started()
		address, _ := a.Addrs()
		announce(address)
	}()
	return a.Run(signals)
}

// serveEngine answers every request at once: a model list to GET, a chunked stream when the body asks for one, an
// answer of a usual size otherwise. It is no HTTP server but as much of one as the proxies' requests need.
func serveEngine(chunks string, signals <-chan os.Signal) error {
	n, err := strconv.Atoi(chunks)
	if err != nil {
		return err
	}
	l, err := listenLoopback()
	if err != nil {
		return err
	}
	announce(l.Addr())
	go func() { <-signals; _ = l.Close() }()
	for {
		conn, err := l.Accept()
		if err != nil {
			return nil // closed by the signal
		}
		go answerAll(conn, n)
	}
}

const (
	engineModels = `{"object":"list","data":[{"id":"m","object":"model","created":1,"owned_by":"bench"}]}`
	engineChat   = `{"id":"chatcmpl-7c3f1b2a9d8e4f60","object":"chat.completion","created":1700000000,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"The quick brown fox jumps over the lazy dog, and the lazy dog lets it."},"finish_reason":"stop"}],"usage":{"prompt_tokens":256,"completion_tokens":17,"total_tokens":273}}`
	engineEvent  = `data: {"id":"chatcmpl-7c3f1b2a9d8e4f60","object":"chat.completion.chunk","created":1700000000,"model":"m","choices":[{"index":0,"delta":{"content":" word"}}]}` + "\n\n"
)

func plain(body string) string {
	return fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
}

func chunk(s string) string { return fmt.Sprintf("%x\r\n%s\r\n", len(s), s) }

func answerAll(conn net.Conn, chunks int) {
	defer conn.Close()
	in := bufio.NewReaderSize(conn, 64<<10)
	event, end := chunk(engineEvent), chunk("data: [DONE]\n\n")+"0\r\n\r\n"
	for {
		method, body, err := readMessage(in)
		if err != nil {
			return
		}
		switch {
		case strings.HasPrefix(method, "GET /v1/models"):
			_, err = io.WriteString(conn, plain(engineModels))
		case strings.HasPrefix(method, "GET /server_info"):
			_, err = io.WriteString(conn, "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")
		case strings.Contains(string(body), `"stream":true`):
			_, err = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
			for i := 0; i < chunks && err == nil; i++ { // one write an event, as engines do
				_, err = io.WriteString(conn, event)
			}
			if err == nil {
				_, err = io.WriteString(conn, end)
			}
		default:
			_, err = io.WriteString(conn, plain(engineChat))
		}
		if err != nil {
			return
		}
	}
}
