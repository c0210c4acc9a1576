package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"sync/atomic"
	"time"
)

const (
	// keyReload is the time between two looks at the key file; the kubelet itself takes up to a minute to renew a
	// mounted Secret.
	keyReload = 10 * time.Second
	// maxKeyBytes bounds the key file.
	maxKeyBytes = 16 << 10
)

// keyFile is the bearer token of the engines, followed through rotations. A file that cannot be read keeps the last
// key.
type keyFile struct {
	path   string
	log    *slog.Logger
	key    atomic.Pointer[string]
	broken bool // the last reading failed; of run alone
}

func openKeyFile(path string, log *slog.Logger) (*keyFile, error) {
	k := &keyFile{path: path, log: log}
	key, err := k.read()
	if err != nil {
		return nil, err
	}
	k.key.Store(&key)
	return k, nil
}

func (k *keyFile) get() string { return *k.key.Load() }

func (k *keyFile) read() (string, error) {
	f, err := os.Open(k.path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxKeyBytes+1))
	key := strings.TrimSpace(string(data))
	switch {
	case err != nil:
		return "", fmt.Errorf("read %s: %w", k.path, err)
	case len(data) > maxKeyBytes:
		return "", fmt.Errorf("%s is larger than %d bytes: it cannot be a key", k.path, maxKeyBytes)
	case key == "":
		return "", fmt.Errorf("%s is empty", k.path)
	case strings.ContainsFunc(key, func(r rune) bool { return r <= ' ' || r == 0x7f }):
		return "", errors.New(k.path + " holds white space or control characters inside the key")
	}
	return key, nil
}

func (k *keyFile) run(ctx context.Context) error {
	tick := time.NewTicker(keyReload)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			k.reload()
		}
	}
}

func (k *keyFile) reload() {
	key, err := k.read()
	switch {
	case err != nil && !k.broken:
		k.log.Warn("worker API key cannot be read: keeping the one known", "error", err)
	case err == nil && key != k.get():
		k.key.Store(&key)
		k.log.Info("worker API key changed")
	}
	k.broken = err != nil
}
