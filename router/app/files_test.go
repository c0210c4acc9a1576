package app

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
)

func TestTheMemoryLimitComesFromTheInnermostCgroup(t *testing.T) {
	file := func(s string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(s)} }
	for name, c := range map[string]struct {
		files fstest.MapFS
		want  int64
		ok    bool
	}{
		"version 2 in a namespace": {fstest.MapFS{"proc/self/cgroup": file("0::/\n"), "sys/fs/cgroup/memory.max": file("1000\n")}, 1000, true},
		"version 2 of the host": {fstest.MapFS{"proc/self/cgroup": file("0::/pod/x\n"), "sys/fs/cgroup/pod/x/memory.max": file("2000\n"),
			"sys/fs/cgroup/memory.max": file("9000\n")}, 2000, true},
		"no limit":        {fstest.MapFS{"proc/self/cgroup": file("0::/\n"), "sys/fs/cgroup/memory.max": file("max\n")}, 0, false},
		"version 1":       {fstest.MapFS{"sys/fs/cgroup/memory/memory.limit_in_bytes": file("3000\n")}, 3000, true},
		"version 1, none": {fstest.MapFS{"sys/fs/cgroup/memory/memory.limit_in_bytes": file("9223372036854771712\n")}, 0, false},
		"nothing there":   {fstest.MapFS{}, 0, false},
		"nonsense":        {fstest.MapFS{"sys/fs/cgroup/memory.max": file("-5")}, 0, false},
	} {
		if got, ok := cgroupLimit(c.files); got != c.want || ok != c.ok {
			t.Errorf("%s: got %d %v, want %d %v", name, got, ok, c.want, c.ok)
		}
	}
}

func TestTheKeyFileFollowsRotationsAndKeepsTheLastGoodKey(t *testing.T) {
	path := filepath.Join(t.TempDir(), "key")
	write := func(s string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(s), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var lines bytes.Buffer
	log := slog.New(slog.NewTextHandler(&lines, nil))
	write("first\n")
	k, err := openKeyFile(path, log)
	if err != nil || k.get() != "first" {
		t.Fatalf("got %v", err)
	}
	write("second")
	k.reload()
	for _, bad := range []string{"", "two words", strings.Repeat("x", maxKeyBytes+1)} {
		write(bad)
		k.reload()
	}
	if k.get() != "second" {
		t.Errorf("got %q, want the last good key", k.get())
	}
	if got := strings.Count(lines.String(), "cannot be read"); got != 1 {
		t.Errorf("the trouble was logged %d times, want once", got)
	}
	if strings.Contains(lines.String(), "second") {
		t.Error("the log holds a key")
	}
	write("third")
	k.reload()
	if k.get() != "third" {
		t.Errorf("got %q after the file was repaired", k.get())
	}
}

func TestFilesThatCannotBeReadAreStartErrorsThatNameTheFlag(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "missing")
	for flag, o := range map[string]Options{
		"--worker-api-key-file": {WorkerAPIKeyFile: missing}, "--token-dir": {TokenDir: missing},
	} {
		o.Worker = []string{"http://127.0.0.1:1"}
		if _, err := New(o); err == nil || !strings.Contains(err.Error(), flag) || !strings.Contains(err.Error(), missing) {
			t.Errorf("%s: got %v", flag, err)
		}
	}
}
