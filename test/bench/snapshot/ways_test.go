package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime/debug"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/routerfleet/routerfleet/router/index"
	"github.com/routerfleet/routerfleet/router/snapshot"
)

func TestEveryWayTeachesTheWholeIndex(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(gcPercent)) // learnFrom sets it for its process
	sizes := map[way]int64{}
	for _, w := range ways {
		s := shape{index.SchemeSGLang, 3, 7, w}
		src, err := newSource(s)
		if err != nil {
			t.Fatal(err)
		}
		handler := snapshot.NewHandler(src, snapshot.Options{Keys: keys})
		server := httptest.NewUnstartedServer(handler)
		var sent atomic.Int64
		server.Listener = &counting{server.Listener, &sent}
		server.Start()
		f, err := learnFrom(s, server.URL)
		server.Close()
		handler.Close()
		if err != nil || f.Learnt.Blocks != s.blocks() || s.blocks() != 8*128+7*200 {
			t.Errorf("%v: %d blocks, want %d, and %v", w, f.Learnt.Blocks, s.blocks(), err)
		}
		sizes[w] = sent.Load()
	}
	two, text, zipped := sizes[ways[0]], sizes[ways[1]], sizes[ways[2]]
	if two == 0 || text <= 2*two || zipped >= text {
		t.Errorf("bytes: format 2 %d, format 1 %d, compressed %d: not what was asked for", two, text, zipped)
	}
}

func TestOfSeveralLearnersTheLastCounts(t *testing.T) {
	at := time.Unix(1_700_000_000, 0)
	got := together([]learnt{
		{Began: at.Add(2 * time.Second), Ready: 3 * time.Second, Busy: 1, CPU: time.Second, Blocks: 5, End: 10, Peak: 40},
		{Began: at, Ready: 4 * time.Second, Busy: 2, CPU: 2 * time.Second, Blocks: 5, End: 20, Peak: 30},
	})
	if want := (learnt{Began: at, Table: 2 * time.Second, Ready: 5 * time.Second, Busy: 3, CPU: 3 * time.Second, Blocks: 5, End: 20, Peak: 40}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if one := (learnt{Began: at, Table: 1, Ready: 2, Read: 3, Busy: 8, CPU: 4, Blocks: 5, End: 6, Peak: 7}); together([]learnt{one}) != one {
		t.Errorf("one learner's figures change to %+v", together([]learnt{one}))
	}
}

func TestABusyTeacherIsAskedAgainAndOthersAreNot(t *testing.T) {
	for code, want := range map[string]int{snapshot.CodeBusy: 1, snapshot.CodeBuildFailed: 0} {
		asked, say := 0, code
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			if asked++; asked > 1 {
				say = snapshot.CodeNoIndex
			}
			w.WriteHeader(http.StatusServiceUnavailable)
			fmt.Fprintf(w, `{"error":{"code":%q}}`, say)
		}))
		_, busy, err := ask(way{}.client(), snapshot.Peer{URL: server.URL}, snapshot.Want{})
		server.Close()
		if err == nil || busy != want || asked != want+1 {
			t.Errorf("%s: asked %d times, %d busy, %v", code, asked, busy, err)
		}
	}
}

func TestEachTableHasItsRows(t *testing.T) {
	var all []figures
	for _, s := range shapes(true) {
		all = append(all, figures{Shape: s, Learnt: learnt{Blocks: s.blocks(), Ready: 1, Read: 1}})
	}
	first, second, ok := strings.Cut(markdown(all), "\n| format |")
	if !ok || strings.Count(first, "\n| sglang |") != 3 || strings.Count(first, "\n| tokens |") != 2 {
		t.Errorf("the first table is\n%s", first)
	}
	for _, row := range []string{"\n| 2 | 1 |", "\n| 1, identity | 1 |", "\n| 1, gzip | 1 |", "\n| 2 | 5 |"} {
		if strings.Count(second, row) != 1 {
			t.Errorf("no row %q in\n%s", row, second)
		}
	}
}
