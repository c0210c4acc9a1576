package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"time"
)

// record is what a later run must know and cannot see in /proc. A lost record
// costs convenience: `down` does without.
type record struct {
	Nodes       int      `json:"nodes"`
	Port        int      `json:"port"`        // of the proxy, on loopback
	Kind        bool     `json:"kind"`        // a kind cluster stands behind the verbs
	HostFolders []string `json:"hostFolders"` // mount points `up` made on the host
}

func (a *app) readRecord() (record, error) {
	var r record
	b, err := os.ReadFile(a.Path("cluster.json"))
	if errors.Is(err, fs.ErrNotExist) {
		return r, fmt.Errorf("no cluster at %s: start one with `cluster up`", a.State)
	}
	if err != nil {
		return r, err
	}
	if err := json.Unmarshal(b, &r); err != nil {
		return r, fmt.Errorf("read %s: %w (remove the cluster with `cluster down`)", a.Path("cluster.json"), err)
	}
	return r, nil
}

func (a *app) writeRecord(r record) error {
	b, err := json.Marshal(r)
	if err != nil {
		return err
	}
	return os.WriteFile(a.Path("cluster.json"), b, 0o644)
}

// lockPoll is how often a run that waits for another one looks again.
const lockPoll = 100 * time.Millisecond

// lock keeps other runs of up and down from this cluster. It is a name in the
// kernel's abstract socket space: it leaves no file, and ends with the process.
func (a *app) lock(ctx context.Context) (unlock func(), err error) {
	for first := true; ; first = false {
		l, err := net.Listen("unix", "@routerfleet-cluster-"+a.ID())
		if err == nil {
			return func() { _ = l.Close() }, nil
		}
		if first {
			fmt.Fprintf(a.out, "          another `cluster up` or `down` works on %s, waiting for it\n", a.State)
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(lockPoll):
		}
	}
}
