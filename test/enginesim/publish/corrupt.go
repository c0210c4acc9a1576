package publish

import (
	"crypto/sha256"
	"encoding/binary"
	"slices"
)

// eventFault changes what a batch says.
type eventFault struct {
	name    FaultName
	storing bool // only batches that store blocks suffer it
	apply   func(*stream, Fault, []event) []event
}

// eventFaults in the order they are applied. Made-up events go last, so that a
// decoder that gives up on one of them shows by what it had before.
var eventFaults = []eventFault{
	{WrongBlock, true, func(_ *stream, f Fault, events []event) []event {
		return eachStored(events, func(e *event) { e.blockSize = f.BlockSize })
	}},
	{Pairs, true, func(_ *stream, _ Fault, events []event) []event {
		return eachStored(events, func(e *event) { e.pairs = true })
	}},
	{LongTokens, true, func(_ *stream, f Fault, events []event) []event {
		return eachStored(events, func(e *event) {
			e.tokens = append(slices.Clip(e.tokens), make([]uint32, within(f.Count, MaxCount))...)
		})
	}},
	{UnknownField, false, func(_ *stream, _ Fault, events []event) []event {
		for i := range events {
			events[i].odd = true
		}
		return events
	}},
	{Contradict, true, (*stream).contradict},
	{Cycle, false, (*stream).cycle},
	{UnknownEvent, false, func(s *stream, _ Fault, events []event) []event {
		// In front, so that whoever gives up on it loses the others.
		return append([]event{{kind: blockDreamt, hashes: s.dream(1), medium: mediumGPU}}, events...)
	}},
	{LongHashes, false, func(s *stream, f Fault, events []event) []event {
		return append(events, s.dreamt(nil, within(f.Count, MaxCount)))
	}},
}

func eachStored(events []event, change func(*event)) []event {
	for i := range events {
		if events[i].kind == blockStored {
			change(&events[i])
		}
	}
	return events
}

func stores(events []event) bool {
	return slices.ContainsFunc(events, func(e event) bool { return e.kind == blockStored })
}

// corrupt applies the faults of events that are on.
func (s *stream) corrupt(events []event) []event {
	for _, fault := range eventFaults {
		if fault.storing && !stores(events) {
			continue
		}
		if f, on := s.faults.use(fault.name, s.rank); on {
			events = fault.apply(s, f, events)
		}
	}
	return events
}

// contradict stores the first block again, behind another parent.
func (s *stream) contradict(_ Fault, events []event) []event {
	i := slices.IndexFunc(events, func(e event) bool { return e.kind == blockStored })
	second := events[i]
	other := s.dream(1)[0]
	second.hashes, second.parent = second.hashes[:1:1], &other
	if second.blockSize > 0 {
		second.tokens = second.tokens[:min(second.blockSize, len(second.tokens))]
	}
	if len(second.extra) > 1 {
		second.extra = second.extra[:1]
	}
	return append(events, second)
}

// cycle adds two blocks that follow each other.
func (s *stream) cycle(_ Fault, events []event) []event {
	ring := s.dream(2)
	a, b := s.dreamt(&ring[1], 1), s.dreamt(&ring[0], 1)
	a.hashes, b.hashes = ring[:1:1], ring[1:]
	return append(events, a, b)
}

// dreamt stores n blocks that do not exist.
func (s *stream) dreamt(parent *hash, n int) event {
	size := s.opts.PageSize
	return event{
		kind: blockStored, hashes: s.dream(n), parent: parent, blockSize: size, medium: mediumGPU,
		tokens: make([]uint32, min(n*size, MaxCount)),
	}
}

// dream makes up n hashes that no block has, other ones each time.
func (s *stream) dream(n int) []hash {
	hashes := make([]hash, n)
	var seed [24]byte
	copy(seed[:], "dream")
	binary.BigEndian.PutUint64(seed[8:], uint64(s.rank))
	for i := range hashes {
		s.dreams++
		binary.BigEndian.PutUint64(seed[16:], s.dreams)
		hashes[i] = sha256.Sum256(seed[:])
	}
	return hashes
}

// garble applies the faults of payloads that are on.
func (s *stream) garble(payload []byte) []byte {
	if f, on := s.faults.use(Garbage, s.rank); on {
		payload = make([]byte, within(f.Bytes, MaxBytes))
		for i := range payload {
			payload[i] = 0xc1 // the one byte that MessagePack never uses
		}
	}
	if _, on := s.faults.use(Torn, s.rank); on {
		payload = payload[:len(payload)/2]
	}
	return payload
}

// parts are the frames of a live message.
func (s *stream) parts(seq int64, payload []byte) [][]byte {
	number := seqFrame(seq)
	if _, on := s.faults.use(ShortSeq, s.rank); on {
		number = number[4:]
	}
	parts := [][]byte{[]byte(s.opts.Topic), number, payload}
	f, on := s.faults.use(BadFrames, s.rank)
	if !on {
		return parts
	}
	want := within(f.Frames, MaxFrames)
	for len(parts) < want {
		parts = append(parts, payload[:min(1, len(payload))])
	}
	return parts[:want]
}

func seqFrame(seq int64) []byte { return binary.BigEndian.AppendUint64(nil, uint64(seq)) }

// within makes a parameter from outside one of at least 1 and at most most.
func within(n, most int) int { return min(max(1, n), most) }
