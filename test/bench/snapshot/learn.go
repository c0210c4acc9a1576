package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"time"

	"github.com/routerfleet/routerfleet/router/index"
	"github.com/routerfleet/routerfleet/router/snapshot"
	"github.com/routerfleet/routerfleet/test/bench/clock"
)

// chunksAhead are read while others are restored, as the coordinator reads ahead of the pump.
const chunksAhead = 8

// learnFrom fetches twice: into an index, and for nothing. One of several learners leaves the second out, which would
// hold up the others.
func learnFrom(s shape, url string) (figures, error) {
	debug.SetGCPercent(gcPercent)
	client := s.Way.client()
	want := snapshot.Want{MaxAge: s.Way.maxAge(), Local: []snapshot.LocalSection{{Key: s.section()}}}
	for i := range s.Ranks {
		want.Local[0].Ranks = append(want.Local[0].Ranks, snapshot.LocalRank{Rank: s.rank(i), Worker: s.worker(i)})
	}
	peer := snapshot.Peer{Name: "teacher", URL: url, Upstream: s.Way.Format == 1}
	var f figures
	l := &f.Learnt
	x := index.New(index.Options{})
	cpu := clock.Spent()
	began := time.Now()
	l.Began = began
	err := fetch(client, peer, want, func(busy int) { l.Table, l.Busy = time.Since(began), busy }, func(v *snapshot.Vetted) error { return graft(x, v) })
	if err != nil {
		return f, err
	}
	l.Ready, l.CPU = time.Since(began), clock.Spent()-cpu
	l.Blocks, l.Peak = x.Stats().Nodes, resident("VmHWM")
	if l.Blocks != s.blocks() {
		return f, fmt.Errorf("%d blocks arrived, want %d", l.Blocks, s.blocks())
	}
	if s.Way.learners() == 1 {
		began = time.Now()
		want.MaxAge = time.Hour
		if err := fetch(client, peer, want, func(int) {}, func(v *snapshot.Vetted) error { return each(v, func(*snapshot.Chunk) {}) }); err != nil {
			return f, err
		}
		l.Read = time.Since(began)
	}
	debug.FreeOSMemory()
	l.End = resident("VmRSS")
	runtime.KeepAlive(x)
	return f, nil
}

func fetch(c *snapshot.Client, p snapshot.Peer, w snapshot.Want, table func(busy int), section func(*snapshot.Vetted) error) error {
	body, busy, err := ask(c, p, w)
	if err != nil {
		return err
	}
	defer body.Close()
	table(busy)
	for {
		v, err := body.Next(context.Background())
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := section(v); err != nil {
			return err
		}
	}
}

// each gives a section's chunks, some of them read ahead.
func each(v *snapshot.Vetted, f func(*snapshot.Chunk)) error {
	chunks := make(chan *snapshot.Chunk, chunksAhead)
	var failed error
	go func() {
		defer close(chunks)
		for {
			c, err := v.Next(context.Background())
			if err != nil {
				failed = err
				return
			}
			chunks <- c
		}
	}()
	for c := range chunks {
		f(c)
	}
	if !errors.Is(failed, io.EOF) {
		return failed
	}
	return nil
}

// graft restores a section behind masked ranks, and commits it.
func graft(x *index.Index, v *snapshot.Vetted) error {
	var ranks []index.Rank
	for _, r := range v.Ranks() {
		ranks = append(ranks, r.Rank)
	}
	re, err := x.BeginRestore(ranks)
	if err != nil {
		return err
	}
	err = each(v, func(c *snapshot.Chunk) {
		c.Runs(func(p index.Parent, keys []index.Key, who []index.Holding) {
			if len(who) == 1 { // by far the most
				x.Store(re.Holder(who[0].Rank), p, keys, who[0].Tiers)
				return
			}
			for _, k := range keys {
				re.Add(k, p, who)
				p = index.After(k)
			}
		})
	})
	if err != nil {
		re.Abort()
		return err
	}
	re.Commit()
	return nil
}
