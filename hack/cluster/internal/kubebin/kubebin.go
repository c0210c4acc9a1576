// Package kubebin builds what a local cluster runs into bin/, once.
//
// A result lives in a folder named after a hash of everything it is made from,
// and a symlink without the hash points to the current one. A lock lets several
// programs ask at once: the first builds, the others wait for it.
package kubebin

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// hashDigits of the hash name a folder; collisions need billions of builds.
	hashDigits = 12
	lockPoll   = 200 * time.Millisecond
	// beat is how often a long build says that it is alive.
	beat = 30 * time.Second
)

// Artifact is one thing to build.
type Artifact struct {
	Name    string   // of the symlink, and of the folder before the hash
	Sources []string // glob patterns below the root; their contents are hashed
	Flags   []string // whatever else decides the result: tool version, flags
	Outputs []string // files whose presence says the folder is complete
	Cost    string   // what a person should expect, for the progress line
	// Build fills an empty folder.
	Build func(ctx context.Context, dir string) error
}

// Ensure returns the artifact's folder below bin after building it if it is not
// there. Older results are removed. Progress goes to out.
func (a Artifact) Ensure(ctx context.Context, root, bin string, out io.Writer) (string, error) {
	hash, err := a.Hash(root)
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(bin, 0o755); err != nil {
		return "", err
	}
	unlock, err := lock(ctx, filepath.Join(bin, "."+a.Name+".lock"), func() {
		fmt.Fprintf(out, "          another process is building bin/%s, waiting for it\n", a.Name)
	})
	if err != nil {
		return "", fmt.Errorf("wait for the build of bin/%s: %w", a.Name, err)
	}
	defer unlock()
	dir := filepath.Join(bin, a.Name+"-"+hash)
	if !a.complete(dir) {
		if err := a.build(ctx, dir, out); err != nil {
			return "", err
		}
	}
	if err := a.link(bin, dir); err != nil {
		return "", err
	}
	return dir, a.prune(bin, dir)
}

// Present tells whether Ensure would find the artifact built.
func (a Artifact) Present(root, bin string) bool {
	hash, err := a.Hash(root)
	return err == nil && a.complete(filepath.Join(bin, a.Name+"-"+hash))
}

// Hash names the result: it changes with every source file and flag.
func (a Artifact) Hash(root string) (string, error) {
	var files []string
	for _, pattern := range a.Sources {
		matches, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			return "", fmt.Errorf("list the sources %s of bin/%s: %w", pattern, a.Name, err)
		}
		if len(matches) == 0 {
			return "", fmt.Errorf("no source %s of bin/%s below %s: is the checkout complete?", pattern, a.Name, root)
		}
		files = append(files, matches...)
	}
	slices.Sort(files)
	h := sha256.New()
	fmt.Fprintf(h, "%q\n", a.Flags)
	for _, f := range files {
		content, err := os.ReadFile(f)
		if err != nil {
			return "", err
		}
		rel, err := filepath.Rel(root, f)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(h, "%q %x\n", rel, sha256.Sum256(content))
	}
	return hex.EncodeToString(h.Sum(nil))[:hashDigits], nil
}

func (a Artifact) complete(dir string) bool {
	for _, f := range a.Outputs {
		if _, err := os.Stat(filepath.Join(dir, f)); err != nil {
			return false
		}
	}
	return true
}

// build builds next to the final place and renames, so that a folder with the
// final name is complete.
func (a Artifact) build(ctx context.Context, dir string, out io.Writer) error {
	draft := filepath.Join(filepath.Dir(dir), "."+filepath.Base(dir)+".new")
	if err := os.RemoveAll(draft); err != nil {
		return err
	}
	if err := os.MkdirAll(draft, 0o755); err != nil {
		return err
	}
	fmt.Fprintf(out, "          building bin/%s: %s\n", a.Name, a.Cost)
	stop := heartbeat(a.Name, out)
	err := a.Build(ctx, draft)
	stop()
	if err != nil {
		return errors.Join(fmt.Errorf("build bin/%s: %w", a.Name, err), os.RemoveAll(draft))
	}
	if err := os.RemoveAll(dir); err != nil { // an incomplete one, cut short by hand
		return err
	}
	return os.Rename(draft, dir)
}

// heartbeat reports until stopped that the build goes on.
func heartbeat(name string, out io.Writer) (stop func()) {
	start, done, ended := time.Now(), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(beat)
		defer tick.Stop()
		for {
			select {
			case <-done:
				return
			case <-tick.C:
				fmt.Fprintf(out, "          still building bin/%s, %s so far\n", name, time.Since(start).Round(time.Second))
			}
		}
	}()
	return func() { close(done); <-ended }
}

// link points the symlink to dir in one step: whoever reads it meanwhile sees
// the old or the new folder.
func (a Artifact) link(bin, dir string) error {
	final, draft := filepath.Join(bin, a.Name), filepath.Join(bin, "."+a.Name+".link")
	if current, err := os.Readlink(final); err == nil && current == filepath.Base(dir) {
		return nil
	}
	if err := os.Remove(draft); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if err := os.Symlink(filepath.Base(dir), draft); err != nil {
		return err
	}
	return os.Rename(draft, final)
}

// prune removes results of other hashes, and drafts of builds that were killed.
func (a Artifact) prune(bin, keep string) error {
	old := regexp.MustCompile(`^(\.` + regexp.QuoteMeta(a.Name) + `-[0-9a-f]+\.new|` + regexp.QuoteMeta(a.Name) + `-[0-9a-z]+)$`)
	entries, err := os.ReadDir(bin)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.IsDir() && old.MatchString(e.Name()) && e.Name() != filepath.Base(keep) {
			if err := os.RemoveAll(filepath.Join(bin, e.Name())); err != nil {
				return fmt.Errorf("remove the old build %s: %w", e.Name(), err)
			}
		}
	}
	return nil
}

// lock takes an exclusive lock that the kernel releases when this process ends,
// however it ends. waiting is called once if somebody else has it.
func lock(ctx context.Context, path string, waiting func()) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	for first := true; ; first = false {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return func() { _ = f.Close() }, nil // closing releases the lock
		}
		if !errors.Is(err, unix.EWOULDBLOCK) {
			return nil, errors.Join(err, f.Close())
		}
		if first {
			waiting()
		}
		select {
		case <-ctx.Done():
			return nil, errors.Join(context.Cause(ctx), f.Close())
		case <-time.After(lockPoll):
		}
	}
}
