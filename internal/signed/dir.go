package signed

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"
)

// DefaultReload is the time between two looks at a token directory. The kubelet itself takes up to a minute to
// renew a mounted Secret, so looking more often would gain nothing.
const DefaultReload = 10 * time.Second

// Dir is a directory of token files, such as a mounted Secret, that follows changes. A directory that cannot be
// read or makes no sense keeps the tokens read last, and says so once.
type Dir struct {
	path string
	log  *slog.Logger

	tokens atomic.Pointer[Tokens]

	mu     sync.Mutex // guards what follows; held for one Reload
	digest [sha256.Size]byte
	broken string
}

// OpenDir reads the directory for the first time. It is an error when that fails: a router that was told where its
// tokens are must not start without them. log may be nil.
func OpenDir(path string, log *slog.Logger) (*Dir, error) {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	d := &Dir{path: path, log: log}
	d.tokens.Store(&Tokens{})
	if _, err := d.reload(); err != nil {
		return nil, fmt.Errorf("read tokens from %s: %w", path, err)
	}
	return d, nil
}

// Keys returns the peer keys of the latest reading. It is a Keyring.
func (d *Dir) Keys() []Key { return d.tokens.Load().Keys() }

// Bearers returns the bearers of the latest reading.
func (d *Dir) Bearers() []Bearer { return d.tokens.Load().Bearers() }

// RoleOf tells whose bearer a token is, in constant time; ok is false for a stranger's.
func (d *Dir) RoleOf(token string) (role Role, ok bool) { return bearerRole(d.Bearers(), token) }

// Generation is the id of the present signing key.
func (d *Dir) Generation() string { return d.tokens.Load().Generation() }

// Run reloads every interval (0 means DefaultReload) until ctx ends.
func (d *Dir) Run(ctx context.Context, interval time.Duration) error {
	if interval <= 0 {
		interval = DefaultReload
	}
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			_ = d.Reload() // logged on change; the tokens read last stay valid
		}
	}
}

// Reload looks once. It logs when the tokens, or the trouble reading them, changed.
func (d *Dir) Reload() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	changed, err := d.reload()
	switch {
	case err != nil && err.Error() != d.broken:
		d.broken = err.Error()
		d.log.Warn("tokens cannot be read: keeping the ones known", "dir", d.path, "error", err)
	case err == nil && d.broken != "":
		d.broken = ""
		d.log.Info("tokens can be read again", "dir", d.path)
	}
	if changed {
		d.log.Info("tokens changed", "dir", d.path, "key", d.Generation())
	}
	return err
}

// reload publishes the tokens when the content differs from the last reading. Content is compared and not times:
// the files are few and small, and a swapped mount may carry any time.
func (d *Dir) reload() (changed bool, err error) {
	data, err := readTokenFiles(d.path)
	if err != nil {
		return false, err
	}
	digest := digestOf(data)
	if digest == d.digest {
		return false, nil
	}
	tokens, err := ParseTokens(data)
	if err != nil {
		return false, err
	}
	d.digest = digest
	d.tokens.Store(tokens)
	return true, nil
}

// readTokenFiles reads the token files of one moment. A mounted Secret is a set of links through ..data, which the
// kubelet swaps in one rename: resolving it once keeps a reading from mixing two versions, and a version that is
// removed in the middle of it is an error, to be read again.
func readTokenFiles(dir string) (map[string][]byte, error) {
	mounted, err := filepath.EvalSymlinks(filepath.Join(dir, "..data"))
	switch {
	case err == nil:
		dir = mounted
	case !errors.Is(err, fs.ErrNotExist):
		return nil, err
	}
	data := map[string][]byte{}
	for _, name := range tokenFiles {
		value, err := readToken(filepath.Join(dir, name))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		data[name] = value
	}
	if mounted != "" {
		if _, err := os.Stat(mounted); err != nil {
			return nil, fmt.Errorf("the mount was swapped while it was read: %w", err)
		}
	}
	return data, nil
}

// readToken reads one file, refusing one that is longer than any token with its line end.
func readToken(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	value, err := io.ReadAll(io.LimitReader(f, maxTokenBytes+1))
	if len(value) > maxTokenBytes {
		return nil, fmt.Errorf("%s is longer than %d bytes", path, maxTokenBytes)
	}
	return value, err
}

func digestOf(data map[string][]byte) [sha256.Size]byte {
	h := sha256.New()
	for _, name := range tokenFiles {
		value, ok := data[name]
		fmt.Fprintf(h, "%s %t %d\n%s", name, ok, len(value), value)
	}
	return [sha256.Size]byte(h.Sum(nil))
}
