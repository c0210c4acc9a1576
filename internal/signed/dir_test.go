package signed

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// mount is a Secret as the kubelet mounts it: files are links through ..data, which is swapped by one rename.
type mount struct {
	t       *testing.T
	dir     string
	version int
}

func newMount(t *testing.T, files map[string]string) *mount {
	t.Helper()
	m := &mount{t: t, dir: t.TempDir()}
	m.swap(files)
	return m
}

func (m *mount) swap(files map[string]string) {
	m.t.Helper()
	m.version++
	name := fmt.Sprintf("..version_%d", m.version)
	real := filepath.Join(m.dir, name)
	m.must(os.Mkdir(real, 0o700))
	for file, content := range files {
		m.must(os.WriteFile(filepath.Join(real, file), []byte(content), 0o600))
	}
	data := filepath.Join(m.dir, "..data")
	old, _ := os.Readlink(data)
	m.must(os.Symlink(name, data+"_tmp"))
	m.must(os.Rename(data+"_tmp", data))
	for file := range files {
		link := filepath.Join(m.dir, file)
		if _, err := os.Lstat(link); errors.Is(err, fs.ErrNotExist) {
			m.must(os.Symlink(filepath.Join("..data", file), link))
		}
	}
	if old != "" {
		m.must(os.RemoveAll(filepath.Join(m.dir, old)))
	}
}

func (m *mount) must(err error) {
	m.t.Helper()
	if err != nil {
		m.t.Fatal(err)
	}
}

func TestDirFollowsTheSwapOfAMountedSecret(t *testing.T) {
	m := newMount(t, map[string]string{"peer": string(oldToken) + "\n", "admin": "admin-token-0123", "hash-seed": "ff"})
	d, err := OpenDir(m.dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	if k := d.Keys(); len(k) != 1 || !bytes.Equal(k[0].Secret, oldToken) {
		t.Fatalf("keys %v: the line end belongs to the file, not to the token", k)
	}
	m.swap(map[string]string{"peer": string(newToken), "peer.previous": string(oldToken), "view": "view-token-01234"})
	if d.Generation() != NewKey(oldToken).ID {
		t.Fatal("the tokens changed without a reload")
	}
	if err := d.Reload(); err != nil {
		t.Fatal(err)
	}
	k := d.Keys()
	if len(k) != 2 || !bytes.Equal(k[0].Secret, newToken) || !bytes.Equal(k[1].Secret, oldToken) {
		t.Fatalf("keys %v, want the new token first and the old one after it", k)
	}
	b := d.Bearers()
	if len(b) != 1 || b[0].Role != RoleView {
		t.Fatalf("bearers %v, want view alone", b)
	}
	if d.Generation() != NewKey(newToken).ID {
		t.Fatal("the generation did not follow")
	}
}

func TestDirKeepsItsTokensThroughTroubleAndSaysSoOnce(t *testing.T) {
	m := newMount(t, map[string]string{"peer": string(oldToken)})
	var log bytes.Buffer
	d, err := OpenDir(m.dir, slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	m.swap(map[string]string{"peer": "short"})
	for range 3 {
		if err := d.Reload(); err == nil {
			t.Fatal("a token of five bytes was taken")
		}
	}
	if d.Generation() != NewKey(oldToken).ID {
		t.Fatal("the tokens were lost")
	}
	if n := strings.Count(log.String(), "cannot be read"); n != 1 {
		t.Fatalf("the trouble was logged %d times:\n%s", n, log.String())
	}
	m.swap(map[string]string{"peer": string(newToken)})
	if err := d.Reload(); err != nil || d.Generation() != NewKey(newToken).ID {
		t.Fatalf("after the trouble: %v, key %s", err, d.Generation())
	}
	if strings.Contains(log.String(), string(newToken)) || strings.Contains(log.String(), string(oldToken)) {
		t.Fatal("a token was logged")
	}
}

func TestDirSaysNothingWhileNothingChanges(t *testing.T) {
	m := newMount(t, map[string]string{"peer": string(oldToken)})
	var log bytes.Buffer
	d, err := OpenDir(m.dir, slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	m.swap(map[string]string{"peer": string(newToken)})
	for range 5 {
		if err := d.Reload(); err != nil {
			t.Fatal(err)
		}
		m.swap(map[string]string{"peer": string(newToken)}) // the kubelet may swap in the same content
	}
	if n := strings.Count(log.String(), "tokens changed"); n != 1 {
		t.Fatalf("one change was logged %d times:\n%s", n, log.String())
	}
}

func TestDirReadsAPlainDirectoryToo(t *testing.T) {
	dir := t.TempDir()
	if _, err := OpenDir(dir, nil); err == nil || !strings.Contains(err.Error(), "no token peer") {
		t.Fatalf("an empty directory gave %v", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "peer"), oldToken, 0o600); err != nil {
		t.Fatal(err)
	}
	d, err := OpenDir(dir, nil)
	if err != nil || d.Generation() != NewKey(oldToken).ID {
		t.Fatalf("got %v", err)
	}
	if _, err := OpenDir(filepath.Join(dir, "missing"), nil); err == nil {
		t.Fatal("a missing directory was opened")
	}
}

func TestDirRefusesAFileLongerThanATokenBeforeReadingItWhole(t *testing.T) {
	dir := t.TempDir()
	for size, ok := range map[int]bool{maxTokenBytes: true, maxTokenBytes + 1: false} {
		if err := os.WriteFile(filepath.Join(dir, "peer"), bytes.Repeat([]byte("k"), size), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := OpenDir(dir, nil); (err == nil) != ok {
			t.Fatalf("a token of %d bytes: %v", size, err)
		}
	}
}

func TestDirRunReloadsAtItsIntervalAndStops(t *testing.T) {
	m := newMount(t, map[string]string{"peer": string(oldToken)})
	synctest.Test(t, func(t *testing.T) {
		d, err := OpenDir(m.dir, nil)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- d.Run(ctx, 0) }()
		synctest.Wait()
		m.swap(map[string]string{"peer": string(newToken)})
		time.Sleep(DefaultReload - time.Millisecond)
		synctest.Wait()
		if d.Generation() != NewKey(oldToken).ID {
			t.Fatal("reloaded early")
		}
		time.Sleep(time.Millisecond)
		synctest.Wait()
		if d.Generation() != NewKey(newToken).ID {
			t.Fatal("not reloaded at the interval")
		}
		cancel()
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	})
}
