package host

import (
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestMissingPackagesAreNamedOnceAndSorted(t *testing.T) {
	none := func(string) bool { return false }
	want := []string{"containerd", "containernetworking-plugins", "iproute2", "ipset", "iptables", "runc"}
	if got := MissingPackages(none); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if got := MissingPackages(func(string) bool { return true }); len(got) != 0 {
		t.Errorf("a complete machine lacks %v", got)
	}
}

func TestCNIPluginsCountOnlyAsACompleteSet(t *testing.T) {
	for _, tc := range []struct {
		name    string
		exists  func(string) bool
		missing bool
	}{
		{"only in the second folder", func(p string) bool { return !strings.HasPrefix(p, "/usr/lib/cni") }, false},
		{"one plugin missing", func(p string) bool { return !strings.HasSuffix(p, "/portmap") }, true},
		{"split over two folders", func(p string) bool {
			return !strings.HasPrefix(p, "/usr/lib/cni/bridge") && !strings.HasPrefix(p, "/opt/cni/bin/loopback")
		}, true},
	} {
		if got := slices.Contains(MissingPackages(tc.exists), cniPackage); got != tc.missing {
			t.Errorf("%s: package missing is %v, want %v", tc.name, got, tc.missing)
		}
	}
}

func TestTooLittleDiskSaysWhereAndHowMuch(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "not", "made", "yet")
	if err := CheckDisk(1, dir); err != nil {
		t.Errorf("one byte is too much: %v", err)
	}
	err := CheckDisk(math.MaxUint64, dir)
	if err == nil || !strings.Contains(err.Error(), dir) || !strings.Contains(err.Error(), "GB free") {
		t.Errorf("got %v, want the folder and the space", err)
	}
}

func TestSystemFoldersAreAddedToPathOnce(t *testing.T) {
	t.Setenv("PATH", "/home/me/bin:/usr/bin")
	for range 2 {
		if err := AddToPath(); err != nil {
			t.Fatal(err)
		}
	}
	path := os.Getenv("PATH")
	if !strings.HasPrefix(path, "/home/me/bin:/usr/bin:") || strings.Count(path, "/usr/sbin") != 1 || strings.Count(path+":", "/usr/bin:") != 1 {
		t.Errorf("PATH is %s", path)
	}
}
