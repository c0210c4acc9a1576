package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/routerfleet/routerfleet/api/v1alpha1"
	"github.com/routerfleet/routerfleet/test/data/traces"
	"github.com/routerfleet/routerfleet/test/loadgen"
)

func testScreen(terminal bool) (*screen, *bytes.Buffer, *time.Time) {
	var out bytes.Buffer
	now := time.Unix(1000, 0)
	return &screen{out: &out, terminal: terminal, width: func() int { return 24 }, now: func() time.Time { return now }}, &out, &now
}

func TestATerminalStatusIsOverwrittenByTheNextLine(t *testing.T) {
	s, out, _ := testScreen(true)
	s.update("compiling %d of %d", 1, 2)
	s.update("compiling 1 of 2")
	s.update("a status that is wider than the terminal")
	s.line("done")
	want := "\r\x1b[Kcompiling 1 of 2" + "\r\x1b[Ka status that is wider " + "\r\x1b[Kdone\n"
	if out.String() != want {
		t.Errorf("wrote %q, want %q", out, want)
	}
}

func TestWithoutATerminalAStatusIsAPlainLineNowAndThen(t *testing.T) {
	s, out, now := testScreen(false)
	s.line("start")
	s.update("one")
	*now = now.Add(quietPeriod)
	s.update("two")
	s.update("three")
	*now = now.Add(quietPeriod)
	s.update("two")
	s.update("four\x1b[2J\r")
	if want := "start\ntwo\nfour [2J \n"; out.String() != want {
		t.Errorf("wrote %q, want %q", out, want)
	}
}

func TestTheBarNeverLeavesItsWidth(t *testing.T) {
	for _, c := range []struct {
		done, total int
		want        string
	}{{0, 10, "----"}, {5, 10, "##--"}, {10, 10, "####"}, {99, 10, "####"}, {-1, 10, "----"}, {3, 0, "----"}} {
		if got := bar(c.done, c.total, 4); got != c.want {
			t.Errorf("bar(%d, %d) is %q, want %q", c.done, c.total, got, c.want)
		}
	}
}

func TestTheTableCountsWhatWasAddedAndSumsBothWays(t *testing.T) {
	before := table{"demo-0-a": {"engine-x": 2}}
	after := table{"demo-0-a": {"engine-x": 5, "engine-y": 1}, "demo-1-a": {"engine-y": 10}}
	want := strings.Join([]string{
		"engine \\ router  demo-0-a  demo-1-a       sum",
		"engine-x                3         0         3",
		"engine-y                1        10        11",
		"sum                     4        10        14",
	}, "\n")
	if got := strings.Join(after.since(before).lines(), "\n"); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func testDemo(t *testing.T) *demo {
	s, _, _ := testScreen(false)
	return &demo{root: t.TempDir(), screen: s}
}

func TestAFailedProgramIsShownWithTheEndOfItsOutput(t *testing.T) {
	err := testDemo(t).run(t.Context(), "try", "sh", "-c", "seq 1 100; printf last; exit 3")
	if err == nil {
		t.Fatal("a program that exits with 3 is no error")
	}
	text := err.Error()
	if !strings.Contains(text, "exit status 3") || !strings.Contains(text, "  100\n  last") || strings.Contains(text, "  50\n") {
		t.Errorf("the error does not show just the end: %s", text)
	}
}

func TestAnInterruptEndsTheProgramsThatAProgramStarted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	d := testDemo(t)
	s, out, now := testScreen(false)
	d.screen = s
	*now = now.Add(quietPeriod)
	done := make(chan error, 1)
	go func() {
		// The child's child holds the output open: without its end run could not return.
		done <- d.run(ctx, "try", "sh", "-c", "sleep 1000 & echo started; wait")
	}()
	for {
		s.mu.Lock()
		started := strings.Contains(out.String(), "started")
		s.mu.Unlock()
		if started {
			break
		}
		select {
		case err := <-done:
			t.Fatal("it ended by itself: ", err)
		case <-time.After(time.Millisecond):
		}
	}
	cancel()
	select {
	case err := <-done:
		if !errors.Is(err, context.Canceled) {
			t.Errorf("got %v, want the interrupt", err)
		}
	case <-time.After(stopGrace / 2):
		t.Error("the program outlived the interrupt")
	}
}

func TestOptionsThatMakeNoSenseAreRefusedByName(t *testing.T) {
	good := upOptions{Nodes: 2, Requests: 1, Speed: 1, Connections: 1, MaxOutput: 1}
	if err := good.Validate(); err != nil {
		t.Errorf("good options are refused: %v", err)
	}
	for flag, spoil := range map[string]func(*upOptions){
		"--nodes":    func(o *upOptions) { o.Nodes = 4 },
		"--requests": func(o *upOptions) { o.Requests = 0 },
		"--speed":    func(o *upOptions) { o.Speed = 0 },
	} {
		bad := good
		spoil(&bad)
		if err := bad.Validate(); err == nil || !strings.Contains(err.Error(), flag) {
			t.Errorf("%s: got %v, want a refusal that names it", flag, err)
		}
	}
}

func TestEveryCommandToGoOnNamesThisFleet(t *testing.T) {
	text := (&demo{}).howToGoOn()
	for _, want := range []string{"export KUBECONFIG=", fmt.Sprintf("scale rf/%s", fleetName), "port-forward service/" + fleetName, "make demo-down"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in:\n%s", want, text)
		}
	}
	if strings.Contains(text, "%!") {
		t.Errorf("a verb was not filled in:\n%s", text)
	}
}

func TestTheBaselineIsTheSampleButForNameAndPolicy(t *testing.T) {
	sample, err := os.ReadFile(filepath.Join("..", "..", fleetSample))
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := baselineOf(sample)
	if err != nil {
		t.Fatal(err)
	}
	var fleet, baseline v1alpha1.RouterFleet
	for document, into := range map[*[]byte]*v1alpha1.RouterFleet{&sample: &fleet, &manifest: &baseline} {
		if err := yaml.UnmarshalStrict(*document, into); err != nil {
			t.Fatal(err)
		}
	}
	if fleet.Name != fleetName || fleet.Spec.Routing.Policy != "" {
		t.Fatalf("the sample is fleet %s with policy %q: its policy should be the default", fleet.Name, fleet.Spec.Routing.Policy)
	}
	fleet.Name, fleet.Spec.Routing.Policy = baselineName, v1alpha1.PolicyRoundRobin
	if !reflect.DeepEqual(fleet, baseline) {
		t.Errorf("got %+v, want %+v", baseline, fleet)
	}
}

func TestNoRoutingFindsMoreThanTheCeiling(t *testing.T) {
	whole := traces.BlockSize
	for _, c := range []struct {
		name     string
		requests []traces.Request
		want     float64
	}{
		{"nothing", nil, 0},
		{"one prompt is new", []traces.Request{{InputLength: 2 * whole, Blocks: []uint32{1, 2}}}, 0},
		{"half of the second is known", []traces.Request{
			{InputLength: whole, Blocks: []uint32{1}}, {InputLength: 2 * whole, Blocks: []uint32{1, 2}},
		}, 1.0 / 3},
		{"only behind its own prefix", []traces.Request{
			{InputLength: 2 * whole, Blocks: []uint32{1, 2}}, {InputLength: 2 * whole, Blocks: []uint32{3, 2}},
		}, 0},
		{"whole pages of a block that was cut short", []traces.Request{
			{InputLength: 100, Blocks: []uint32{1}}, {InputLength: 300, Blocks: []uint32{1}},
		}, float64(cachePage) / 400},
		{"never the last token", []traces.Request{
			{InputLength: whole, Blocks: []uint32{1}}, {InputLength: whole, Blocks: []uint32{1}},
		}, float64(whole-cachePage) / float64(2*whole)},
	} {
		if got := ceiling(c.requests); got != c.want {
			t.Errorf("%s: got %v, want %v", c.name, got, c.want)
		}
	}
}

func TestTheComparisonShowsWhatWasMeasuredAndADashForWhatWasNot(t *testing.T) {
	ratio := 0.1234
	measured := &loadgen.Result{CachedTokenRatio: &ratio, TTFT: &loadgen.Quantiles{Mean: 0.5, P50: 0.25, P99: 2}}
	got := strings.Join(comparison(&loadgen.Result{}, measured), "\n")
	want := strings.Join([]string{
		"                           RoundRobin   CacheAware",
		"block hit ratio                     -       12.3 %",
		"first token, mean                   -        500ms",
		"first token, p50                    -        250ms",
		"first token, p99                    -           2s",
	}, "\n")
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
