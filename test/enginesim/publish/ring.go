package publish

// kept is one batch kept for replay.
type kept struct {
	seq     int64
	payload []byte
}

// ring keeps the last batches, bounded in number and in bytes; the oldest go
// first.
type ring struct {
	batches  []kept
	maxSteps int
	bytes    int
}

func (r *ring) add(seq int64, payload []byte) {
	r.batches = append(r.batches, kept{seq, payload})
	r.bytes += len(payload)
	for len(r.batches) > r.maxSteps || r.bytes > maxRingBytes && len(r.batches) > 1 {
		r.bytes -= len(r.batches[0].payload)
		r.batches[0] = kept{}
		r.batches = r.batches[1:]
	}
}

// from returns the kept batches with seq >= start, oldest first.
func (r *ring) from(start uint64) []kept {
	for i, k := range r.batches {
		if uint64(k.seq) >= start {
			return r.batches[i:]
		}
	}
	return nil
}

func (r *ring) clear() { r.batches, r.bytes = nil, 0 }
