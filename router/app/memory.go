package app

import (
	"io/fs"
	"log/slog"
	"math"
	"os"
	"path"
	"runtime/debug"
	"strconv"
	"strings"
)

// memoryShare is the part of the container's memory the Go heap may grow to before it collects harder; the rest is for
// stacks, the kernel's buffers and the moment between two collections.
const memoryShare = 0.9

// What an index may take of the memory there is, from the specification of the index.
const (
	indexShareOfLimit    = 0.60
	indexShareOfPhysical = 0.25
	bytesPerBlock        = 48
	// blocksUnasked is the bound where nothing tells how much memory there is: 200 MB.
	blocksUnasked = 4 << 20
)

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

// indexBlocks bounds all indexes together: as configured, or else by the memory there is.
func indexBlocks(configured int) int {
	if configured > 0 {
		return configured
	}
	root := os.DirFS("/")
	goLimit := debug.SetMemoryLimit(-1) // a negative limit only asks
	if limit, ok := cgroupLimit(root); ok && goLimit == math.MaxInt64 {
		goLimit = int64(float64(limit) * memoryShare)
	}
	return blocksWithin(goLimit, root)
}

// blocksWithin is how many blocks the indexes may hold under GOMEMLIMIT, or without one (math.MaxInt64) on this machine.
func blocksWithin(goLimit int64, root fs.FS) int {
	if goLimit != math.MaxInt64 {
		return max(1, int(float64(goLimit)*indexShareOfLimit/bytesPerBlock))
	}
	if physical, ok := physicalMemory(root); ok {
		return max(1, int(float64(physical)*indexShareOfPhysical/bytesPerBlock))
	}
	return blocksUnasked
}

// physicalMemory returns the machine's memory in bytes.
func physicalMemory(root fs.FS) (bytes int64, ok bool) {
	data, err := fs.ReadFile(root, "proc/meminfo")
	if err != nil {
		return 0, false
	}
	for line := range strings.Lines(string(data)) {
		if rest, found := strings.CutPrefix(line, "MemTotal:"); found {
			kib, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")), 10, 64)
			return kib << 10, err == nil && kib > 0 && kib < 1<<40
		}
	}
	return 0, false
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
