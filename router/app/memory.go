package app

import (
	"io/fs"
	"log/slog"
	"os"
	"path"
	"runtime/debug"
	"strconv"
	"strings"
)

// memoryShare is the part of the container's memory the Go heap may grow to before it collects harder; the rest is for
// stacks, the kernel's buffers and the moment between two collections.
const memoryShare = 0.9

// limitMemory sets GOMEMLIMIT from the cgroup, unless the environment has set it.
func limitMemory(log *slog.Logger) {
	if os.Getenv("GOMEMLIMIT") != "" {
		return
	}
	if limit, ok := cgroupLimit(os.DirFS("/")); ok {
		soft := int64(float64(limit) * memoryShare)
		debug.SetMemoryLimit(soft)
		log.Debug("memory limit taken from the cgroup", "limitBytes", limit, "goLimitBytes", soft)
	}
}

// cgroupLimit returns the memory limit of this process's cgroup in bytes, from the root of a file system. ok is false
// when there is none or it cannot be told.
func cgroupLimit(root fs.FS) (limit int64, ok bool) {
	own := "/"
	if data, err := fs.ReadFile(root, "proc/self/cgroup"); err == nil {
		for line := range strings.Lines(string(data)) {
			if rest, found := strings.CutPrefix(line, "0::"); found {
				own = strings.TrimSpace(rest)
			}
		}
	}
	for _, file := range []string{
		path.Join("sys/fs/cgroup", own, "memory.max"), // version 2, without a cgroup namespace
		"sys/fs/cgroup/memory.max",                    // version 2, inside one
		"sys/fs/cgroup/memory/memory.limit_in_bytes",  // version 1
	} {
		data, err := fs.ReadFile(root, file)
		if err != nil {
			continue
		}
		limit, err := strconv.ParseInt(strings.TrimSpace(string(data)), 10, 64)
		// "max" is no number; version 1 says "no limit" with a number near the largest.
		if err != nil || limit <= 0 || limit > 1<<50 {
			continue
		}
		return limit, true
	}
	return 0, false
}
