package host

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
)

func TestTheBridgeFilterIsLoadedOnceAndOffForTheHost(t *testing.T) {
	sysctls := filepath.Join(t.TempDir(), "bridge")
	loads := 0
	modprobe := func(context.Context) error {
		loads++
		if err := os.Mkdir(sysctls, 0o755); err != nil {
			return err
		}
		for _, name := range bridgeFilters {
			if err := os.WriteFile(filepath.Join(sysctls, name), []byte("1"), 0o644); err != nil {
				return err
			}
		}
		return nil
	}
	for range 2 {
		if err := LoadBridgeFilter(t.Context(), sysctls, modprobe); err != nil {
			t.Fatal(err)
		}
	}
	if loads != 1 {
		t.Errorf("loaded %d times, want once", loads)
	}
	for _, name := range bridgeFilters {
		if got, err := os.ReadFile(filepath.Join(sysctls, name)); string(got) != "0" {
			t.Errorf("%s is %q for the host's bridges, want 0 (%v)", name, got, err)
		}
	}
}

func TestAMissingBridgeFilterIsAnError(t *testing.T) {
	gone := errors.New("module not found")
	err := LoadBridgeFilter(t.Context(), filepath.Join(t.TempDir(), "bridge"), func(context.Context) error { return gone })
	if !errors.Is(err, gone) {
		t.Errorf("got %v, want %v", err, gone)
	}
}
