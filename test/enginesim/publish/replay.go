package publish

import (
	"slices"
	"time"
)

// Answer is one message of a replay.
type Answer struct {
	Seq     int64 // EndSeq for the terminator
	Payload []byte
	Delay   time.Duration // to wait before it is sent, by fault
	Parts   [][]byte      // the frames on the wire, without identity
}

// replay answers a request for the batches from start on, as the ring and the
// faults have it. Nil is silence.
func (s *stream) replay(start uint64) []Answer {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.faults.hangs(s.rank) {
		return nil
	}
	if _, on := s.faults.use(ReplaySilent, s.rank); on {
		return nil
	}
	kept := s.ring.from(start)
	answers := make([]Answer, 0, len(kept)+1)
	for _, k := range kept {
		answers = append(answers, s.answer(k.seq, k.payload))
	}
	if _, on := s.faults.use(ReplayReorder, s.rank); on {
		slices.Reverse(answers)
	}
	answers = append(answers, s.answer(EndSeq, nil))
	if f, on := s.faults.use(ReplayTruncate, s.rank); on {
		answers = answers[:min(max(0, f.AfterBatches), len(answers)-1)]
	}
	if f, on := s.faults.use(ReplaySlow, s.rank); on {
		for i := range answers {
			answers[i].Delay = f.Delay
		}
	}
	return answers
}

func (s *stream) answer(seq int64, payload []byte) Answer {
	parts := [][]byte{nil, seqFrame(seq), payload}
	if s.opts.ReplayTopic {
		parts = slices.Insert(parts, 1, []byte(s.opts.Topic))
	}
	return Answer{Seq: seq, Payload: payload, Parts: parts}
}
