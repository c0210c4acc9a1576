package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"

	"github.com/routerfleet/routerfleet/internal/signed"
	"github.com/routerfleet/routerfleet/router/snapshot"
)

// Kinds of rows: the first table has sizes, the second one size in several ways.
const (
	kindSizes = "sizes"
	kindWays  = "ways"
)

// sharedAge is the age that each of several learners accepts, so that one walk serves them all: they have listened to
// their engines for longer when they ask.
const sharedAge = 30 * time.Second

// way is how a row is taught. The zero way is format 2 to one learner.
type way struct {
	Format   int
	Coding   string // of format 1: identity or gzip
	Learners int
}

// ways are the rows of the second table.
var ways = []way{{2, "", 1}, {1, "identity", 1}, {1, "gzip", 1}, {2, "", 5}}

func (w way) learners() int { return max(1, w.Learners) }

func (w way) maxAge() time.Duration {
	if w.learners() > 1 {
		return sharedAge
	}
	return 0
}

func (w way) String() string {
	if w.Coding == "" {
		return fmt.Sprint(w.Format)
	}
	return fmt.Sprintf("%d, %s", w.Format, w.Coding)
}

// client speaks the way's format. Format 1 is what a client asks of upstream peers, without a signature; a teacher wants
// one, so the transport adds it.
func (w way) client() *snapshot.Client {
	o := snapshot.ClientOptions{Keys: keys}
	if w.Format == 1 {
		o.Transport = &codedTransport{base: &http.Transport{DisableCompression: true}, coding: w.Coding}
	}
	return snapshot.NewClient(o)
}

// codedTransport signs requests and has them accept one coding alone.
type codedTransport struct {
	base   http.RoundTripper
	coding string
}

func (t *codedTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	out := req.Clone(req.Context())
	out.Header.Set("Accept-Encoding", t.coding)
	signed.Sign(out, nil, keys()[0], time.Now())
	resp, err := t.base.RoundTrip(out)
	if err == nil && resp.StatusCode == http.StatusOK && (resp.Header.Get("Content-Encoding") == "gzip") != (t.coding == "gzip") {
		resp.Body.Close()
		return nil, fmt.Errorf("asked for the coding %s, the teacher answers with %q", t.coding, resp.Header.Get("Content-Encoding"))
	}
	return resp, err
}

// ask fetches, and asks a teacher that serves as many as it may again when it says; busy counts how often it was.
func ask(c *snapshot.Client, p snapshot.Peer, w snapshot.Want) (body *snapshot.Body, busy int, err error) {
	for ; ; busy++ {
		body, err = c.Fetch(context.Background(), p, w)
		no, ok := errors.AsType[*snapshot.NoBody](err)
		if !ok || no.Code != snapshot.CodeBusy {
			return body, busy, err
		}
		<-time.After(no.RetryAfter)
	}
}

// learnAtOnce starts the shape's learners and waits for all.
func learnAtOnce(s shape, url string) ([]learnt, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(s)
	if err != nil {
		return nil, err
	}
	all, errs := make([]learnt, s.Way.learners()), make([]error, s.Way.learners())
	var wg sync.WaitGroup
	for i := range all {
		wg.Go(func() {
			c := exec.Command(self, "--learn", url, "--shape", string(text))
			c.Stderr = os.Stderr
			out, err := c.Output()
			if err != nil {
				errs[i] = fmt.Errorf("learner %d: %w", i, err)
				return
			}
			var theirs figures
			errs[i] = json.Unmarshal(out, &theirs)
			all[i] = theirs.Learnt
		})
	}
	wg.Wait()
	return all, errors.Join(errs...)
}

// together makes one of what several measured: times are from the first request to the last learner, processor time and
// busy answers are everybody's, memory that of the largest.
func together(all []learnt) learnt {
	out := all[0]
	for _, l := range all[1:] {
		if l.Began.Before(out.Began) {
			out.Began = l.Began
		}
	}
	out.CPU, out.Busy = 0, 0
	for _, l := range all {
		late := l.Began.Sub(out.Began)
		out.Table, out.Ready, out.Read = max(out.Table, late+l.Table), max(out.Ready, late+l.Ready), max(out.Read, l.Read)
		out.CPU, out.Busy = out.CPU+l.CPU, out.Busy+l.Busy
		out.Blocks, out.End, out.Peak = min(out.Blocks, l.Blocks), max(out.End, l.End), max(out.Peak, l.Peak)
	}
	return out
}

func writeWays(b *strings.Builder, rows []figures) {
	fmt.Fprintln(b, "\n| format | learners | scheme | ranks | blocks | bytes a block | request to ready, of the last | told to wait | processor time, teacher and learners | teacher: index, and beyond it, bytes a block | learner: index, and beyond it, bytes a block |")
	fmt.Fprintln(b, "|---|---|---|---|---|---|---|---|---|---|---|")
	for _, f := range rows {
		n := float64(f.Learnt.Blocks)
		fmt.Fprintf(b, "| %s | %d | %s | %d | %.1f M | %.1f | %.2f s | %d | %.2f s, %.2f s | %.0f + %.0f | %.0f + %.0f |\n",
			f.Shape.Way, f.Shape.Way.learners(), f.Shape.Scheme, f.Shape.Ranks, n/1e6,
			float64(f.Bytes)/n, f.Learnt.Ready.Seconds(), f.Learnt.Busy, f.CPU.Seconds(), f.Learnt.CPU.Seconds(),
			float64(f.IndexBytes)/n, float64(f.TeacherPeak-f.IndexBytes)/n, float64(f.Learnt.End)/n, float64(f.Learnt.Peak-f.Learnt.End)/n)
	}
}
