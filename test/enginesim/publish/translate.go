package publish

import (
	"github.com/routerfleet/routerfleet/test/enginesim"
	"github.com/routerfleet/routerfleet/test/enginesim/cache"
)

// translate says the changes of a step as the engine would, and keeps the books
// that its own hashes and groups need.
func (s *stream) translate(changes []enginesim.Change) []event {
	var events []event
	for _, c := range changes {
		switch c := c.(type) {
		case enginesim.Stored:
			events = s.stored(events, c)
		case enginesim.Removed:
			for _, key := range c.Keys {
				events = s.removed(events, key)
			}
		case enginesim.Cleared:
			clear(s.namer.known)
			clear(s.windowed)
			events = append(events, event{kind: allBlocksCleared})
		case enginesim.Restarted: // the stream's own business
		}
	}
	return events
}

// stored is one event a run of blocks in vLLM, one a block in SGLang.
func (s *stream) stored(events []event, c enginesim.Stored) []event {
	run := event{
		kind: blockStored, tokens: c.Tokens, pairs: c.Bigram, blockSize: c.PageSize, medium: mediumGPU,
		lora: s.opts.LoRA, group: s.fullGroup(),
	}
	var parent *hash
	if c.Parent != nil {
		h := s.namer.of(*c.Parent)
		parent = &h
	}
	run.parent = parent
	for i, key := range c.Keys {
		extra := s.extraKeys(c.CacheSalt, parent == nil)
		if extra != nil && run.extra == nil {
			run.extra = make([][]string, len(c.Keys))
		}
		if run.extra != nil {
			run.extra[i] = extra
		}
		h := s.namer.store(key, parent, c.Tokens[i*c.PageSize:(i+1)*c.PageSize], extra)
		run.hashes = append(run.hashes, h)
		parent = &h
	}
	told := []event{run}
	if !s.shape.vllm {
		told = pages(run, c)
	}
	events = append(events, told...)
	if _, on := s.faults.use(Copies, s.rank); on {
		events = append(events, told...)
		events = append(events, event{kind: blockRemoved, hashes: run.hashes, medium: mediumGPU, group: run.group})
	}
	return s.window(events, run, c.Keys)
}

// extraKeys are what vLLM tells a block apart by beside its tokens.
func (s *stream) extraKeys(salt string, first bool) []string {
	if !s.shape.vllm {
		return nil
	}
	var keys []string
	if s.opts.LoRA != "" {
		keys = append(keys, s.opts.LoRA)
	}
	if first && salt != "" {
		keys = append(keys, salt)
	}
	return keys
}

// pages splits a run into one event a block.
func pages(run event, c enginesim.Stored) []event {
	overlap := 0
	if c.Bigram {
		overlap = 1
	}
	events := make([]event, len(run.hashes))
	for i := range events {
		e := run
		e.hashes = run.hashes[i : i+1 : i+1]
		e.tokens = run.tokens[i*c.PageSize : (i+1)*c.PageSize+overlap]
		if i > 0 {
			e.parent = &run.hashes[i-1]
		}
		events[i] = e
	}
	return events
}

// removed is one event a block: engines tell of each eviction by itself.
func (s *stream) removed(events []event, key cache.Key) []event {
	gone := event{kind: blockRemoved, hashes: []hash{s.namer.remove(key)}, medium: mediumGPU, group: s.fullGroup()}
	events = append(events, gone)
	if s.windowed[key] {
		delete(s.windowed, key)
		gone.group = s.windowGroup()
		events = append(events, gone)
	}
	return events
}

// window adds what the sliding-window group of a hybrid model says of a run: it
// stores the same blocks and drops all but the last at once, being one block wide.
func (s *stream) window(events []event, run event, keys []cache.Key) []event {
	if !s.opts.Hybrid {
		if _, on := s.faults.use(ForeignGroup, s.rank); !on {
			return events
		}
	}
	run.group = s.windowGroup()
	events = append(events, run)
	last := len(keys) - 1
	if last > 0 {
		events = append(events, event{kind: blockRemoved, hashes: run.hashes[:last:last], medium: mediumGPU, group: run.group})
	}
	s.windowed[keys[last]] = true
	return events
}

func (s *stream) fullGroup() *group {
	if !s.opts.Hybrid {
		return nil
	}
	return &group{index: 0, kind: "full_attention"}
}

func (s *stream) windowGroup() *group {
	return &group{index: 1, kind: "sliding_window", window: s.opts.PageSize}
}
