package main

import (
	"fmt"
	"os"
	"runtime"
	"time"

	"github.com/routerfleet/routerfleet/router/tokens/bpe"
	"github.com/routerfleet/routerfleet/test/bench/clock"
)

// load measures reading the file and what stays of it.
func (f *figures) load(m model) error {
	path, err := m.path()
	if err != nil {
		return err
	}
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	f.FileBytes = info.Size()
	before := heap()
	began := clock.Spent()
	tok, err := m.load(bpe.Options{WordCacheBytes: -1, MessageCacheBytes: -1})
	if err != nil {
		return err
	}
	f.Load = clock.Spent() - began
	f.Resident = heap() - before
	runtime.KeepAlive(tok)
	return nil
}

func heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// encoding is how fast a corpus is encoded.
type encoding struct {
	Bytes, Tokens    int     // of the corpus
	None, Cold, Warm float64 // tokens a second: no caches, empty word cache, filled one
	Seen             float64 // the same texts again, with the message cache
	CacheBytes       int64   // of both caches after the corpus
}

// encode measures a corpus in four ways.
func (f *figures) encode(m model, roundTime time.Duration) error {
	texts, err := corpus(f.Row.Text)
	if err != nil {
		return err
	}
	e := &f.Encode
	for _, t := range texts {
		e.Bytes += len(t)
	}
	none, err := m.load(bpe.Options{WordCacheBytes: -1, MessageCacheBytes: -1})
	if err != nil {
		return err
	}
	if e.Tokens, err = encodeAll(none, texts); err != nil {
		return err
	}
	if e.None, err = e.rate(none, texts, roundTime); err != nil {
		return err
	}
	words, err := m.load(bpe.Options{MessageCacheBytes: -1})
	if err != nil {
		return err
	}
	if e.Cold, err = e.rate(words, texts, 0); err != nil {
		return err
	}
	if e.Warm, err = e.rate(words, texts, roundTime); err != nil {
		return err
	}
	both, err := m.load(bpe.Options{})
	if err != nil {
		return err
	}
	if _, err := encodeAll(both, texts); err != nil {
		return err
	}
	s := both.Stats()
	e.CacheBytes = s.WordBytes + s.MessageBytes
	e.Seen, err = e.rate(both, texts, roundTime)
	return err
}

// rate encodes the texts once, or until the time is over.
func (e *encoding) rate(tok *bpe.Tokenizer, texts []string, roundTime time.Duration) (float64, error) {
	runtime.GC()
	tokens, began := 0, clock.Spent()
	for tokens == 0 || clock.Spent()-began < roundTime {
		n, err := encodeAll(tok, texts)
		if err != nil {
			return 0, err
		}
		if n != e.Tokens {
			return 0, fmt.Errorf("%d tokens, and %d without caches", n, e.Tokens)
		}
		tokens += n
	}
	return float64(tokens) / (clock.Spent() - began).Seconds(), nil
}

var room []uint32

func encodeAll(tok *bpe.Tokenizer, texts []string) (n int, err error) {
	for _, t := range texts {
		if room, err = tok.Encode(room[:0], t, bpe.Bare); err != nil {
			return 0, err
		}
		n += len(room)
	}
	return n, nil
}
