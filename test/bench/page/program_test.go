package page

import (
	"errors"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// asProgram in the environment has the test binary be a benchmark, and so the rows' processes that it starts.
const asProgram = "PAGE_TEST_PROGRAM"

type square struct{ N, Plus, Square, Process int }

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) == "" {
		os.Exit(m.Run())
	}
	flag.CommandLine = flag.NewFlagSet("squares", flag.ExitOnError)
	plus := flag.Int("plus", 0, "added to each square")
	Program[int, square]{
		Name: "squares", Command: "squares", Flag: "row",
		Rows: func() []int { return []int{2, 3} },
		Measure: func(n int) (square, error) {
			if n < 0 {
				return square{}, errors.New("a negative row")
			}
			return square{n, *plus, n*n + *plus, os.Getpid()}, nil
		},
		Markdown: func(all []square) string {
			var numbers []string
			pids := map[int]bool{os.Getpid(): true}
			for _, s := range all {
				numbers = append(numbers, string(rune('0'+s.Square)))
				pids[s.Process] = true
			}
			return strings.Join(numbers, " ") + " by " + string(rune('0'+len(pids))) + " processes\n"
		},
	}.Main()
}

func runProgram(t *testing.T, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	var out, trouble strings.Builder
	c := exec.Command(os.Args[0], args...)
	c.Env = append(os.Environ(), asProgram+"=1")
	c.Stdout, c.Stderr = &out, &trouble
	err = c.Run()
	return out.String(), trouble.String(), err
}

func TestEachRowHasAProcessAndTheFlagsOfTheRun(t *testing.T) {
	path := filepath.Join(t.TempDir(), "page.md")
	if err := os.WriteFile(path, []byte(begin("squares")+endMeasured), 0o644); err != nil {
		t.Fatal(err)
	}
	out, trouble, err := runProgram(t, "--plus", "0", "--write", path)
	const want = "4 9 by 3 processes\n"
	if err != nil || out != want {
		t.Fatalf("%v:\n%s%s", err, out, trouble)
	}
	if got, _ := os.ReadFile(path); string(got) != begin("squares")+"\n"+want+"\n"+endMeasured {
		t.Errorf("page %q", got)
	}
	if out, trouble, err := runProgram(t, "--plus=-1"); err != nil || out != "3 8 by 3 processes\n" {
		t.Errorf("with a flag: %v:\n%s%s", err, out, trouble)
	}
}

func TestARowThatFailsSaysWhichProgramAndWhy(t *testing.T) {
	for row, want := range map[string]string{"-1": "bench squares: a negative row\n", "{": "bench squares: --row: unexpected end"} {
		if _, trouble, err := runProgram(t, "--row", row); err == nil || !strings.Contains(trouble, want) {
			t.Errorf("row %s: %v:\n%s", row, err, trouble)
		}
	}
}

func TestOnlyFlagsThatWereSetArePassedOn(t *testing.T) {
	flags := flag.NewFlagSet("", flag.ContinueOnError)
	for _, name := range []string{"write", "row", "scale", "unset"} {
		flags.String(name, "", "")
	}
	if err := flags.Parse([]string{"--write", "p", "--row", "r", "--scale", "-1 x"}); err != nil {
		t.Fatal(err)
	}
	if got, want := passedOn(flags, "row"), []string{"--scale=-1 x"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
