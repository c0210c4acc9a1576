package cgroup

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

const hybrid = `22 1 254:0 / / rw,relatime - ext4 /dev/vda rw
30 22 0:26 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755
31 30 0:27 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu
32 30 0:29 / /sys/fs/cgroup/cpuset rw,relatime shared:5 - cgroup cgroup rw,cpuset
33 30 0:33 / /sys/fs/cgroup/systemd rw,relatime - cgroup cgroup rw,name=systemd
34 30 0:34 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw
35 30 0:34 / /mnt/again rw,relatime - cgroup2 cgroup2 rw
36 22 0:35 / /mnt/cgroup rw,relatime - ext4 /dev/vdb rw
`

func TestMountsFindsEveryHierarchyOnce(t *testing.T) {
	for _, tc := range []struct {
		name, mountinfo string
		want            []string
	}{
		{"hybrid", hybrid, []string{"/sys/fs/cgroup/cpu", "/sys/fs/cgroup/cpuset", "/sys/fs/cgroup/systemd", "/sys/fs/cgroup/unified"}},
		{"v2 only", "30 22 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw,nsdelegate\n", []string{"/sys/fs/cgroup"}},
		{"none", "22 1 254:0 / / rw,relatime - ext4 /dev/vda rw\n", nil},
		{"cut line", "30 22 0:26\n", nil},
	} {
		if got := Mounts(tc.mountinfo); !slices.Equal(got, tc.want) {
			t.Errorf("%s: got %v, want %v", tc.name, got, tc.want)
		}
	}
}

// fakeHierarchy is a plain directory: Create and Remove use only mkdir, rmdir and
// the cpuset files.
func fakeHierarchy(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, value := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(value), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestCreateMakesParentsAndIsIdempotent(t *testing.T) {
	v1, v2 := fakeHierarchy(t, nil), fakeHierarchy(t, nil)
	for range 2 {
		if err := Create([]string{v1, v2}, "/rf/node1"); err != nil {
			t.Fatal(err)
		}
	}
	for _, dir := range []string{v1, v2} {
		if _, err := os.Stat(filepath.Join(dir, "rf", "node1")); err != nil {
			t.Error(err)
		}
	}
}

func TestRemoveTakesEveryLevelAndNothingBesides(t *testing.T) {
	dir := fakeHierarchy(t, nil)
	for _, group := range []string{"/rf/node1/kubepods/pod1", "/rf/node2", "/other"} {
		if err := Create([]string{dir}, group); err != nil {
			t.Fatal(err)
		}
	}
	n, err := Remove([]string{dir}, "/rf")
	if err != nil {
		t.Fatal(err)
	}
	if n != 5 {
		t.Errorf("removed %d groups, want 5", n)
	}
	if _, err := os.Stat(filepath.Join(dir, "rf")); !os.IsNotExist(err) {
		t.Errorf("the group is still there: %v", err)
	}
	if _, err := os.Stat(filepath.Join(dir, "other")); err != nil {
		t.Errorf("a foreign group was removed: %v", err)
	}
	if n, err := Remove([]string{dir}, "/rf"); n != 0 || err != nil {
		t.Errorf("removing nothing: %d, %v", n, err)
	}
}

func TestAnEmptyCpusetIsFilledFromTheParent(t *testing.T) {
	parent := fakeHierarchy(t, map[string]string{"cpuset.cpus": "0-1\n", "cpuset.mems": "0\n"})
	child := filepath.Join(parent, "rf")
	if err := os.Mkdir(child, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{"cpuset.cpus": "\n", "cpuset.mems": "1\n"} {
		if err := os.WriteFile(filepath.Join(child, name), []byte(value), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := inherit(parent, child); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"cpuset.cpus": "0-1\n", "cpuset.mems": "1\n"} {
		if got, _ := os.ReadFile(filepath.Join(child, name)); string(got) != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
}

// A plain file keeps the last write; the kernel adds each to the list.
func TestAUnifiedHierarchyGivesPodsTheirControllers(t *testing.T) {
	for _, tc := range []struct{ name, controllers, last string }{
		{"v2 only", "cpuset cpu io memory hugetlb pids rdma\n", "+pids"},
		{"v2 without pids", "cpuset cpu memory\n", "+memory"},
		{"the v2 tree of a hybrid host", "hugetlb\n", ""},
	} {
		root := fakeHierarchy(t, map[string]string{"cgroup.controllers": tc.controllers})
		if err := Create([]string{root}, "/rf"); err != nil {
			t.Fatal(err)
		}
		if got, _ := os.ReadFile(filepath.Join(root, "cgroup.subtree_control")); string(got) != tc.last {
			t.Errorf("%s: the last write to subtree_control is %q, want %q", tc.name, got, tc.last)
		}
	}
}
