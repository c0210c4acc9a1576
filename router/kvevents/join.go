package kvevents

// addStored adds an event, or joins it to the last one if it continues that chain. Its hashes and chunks are at the end of
// the batch's arrays.
func (b *Batch) addStored(s Stored) {
	if last, ok := b.last().(*Stored); ok && last.continuedBy(&s) {
		// The arrays may have moved since, with all they held; the last event's part and this one's are neighbours there.
		n, c := len(last.Hashes)+len(s.Hashes), len(last.Chunks)+len(s.Chunks)
		last.Hashes = b.hashes[len(b.hashes)-n:]
		last.Chunks = b.chunks[len(b.chunks)-c:]
		last.Hashes, last.Chunks = last.Hashes[:n:n], last.Chunks[:c:c]
		last.Tokens += s.Tokens
		last.Joined++
		return
	}
	b.stored = append(b.stored, s)
	b.Events = append(b.Events, &b.stored[len(b.stored)-1])
}

// addRemoved adds an event, or joins it to the last one if that removed from the same place.
func (b *Batch) addRemoved(r Removed) {
	if last, ok := b.last().(*Removed); ok && last.sameAs(&r) && len(last.Hashes)+len(r.Hashes) <= maxEventHashes {
		n := len(last.Hashes) + len(r.Hashes)
		last.Hashes = b.hashes[len(b.hashes)-n:]
		last.Hashes = last.Hashes[:n:n]
		last.Joined++
		return
	}
	b.removed = append(b.removed, r)
	b.Events = append(b.Events, &b.removed[len(b.removed)-1])
}

func (b *Batch) last() Event {
	if len(b.Events) == 0 {
		return nil
	}
	return b.Events[len(b.Events)-1]
}

// continuedBy tells whether next is the same chain's next piece, in the same place. A short block ends its chain, but the
// engine that announces a child of one means it.
func (s *Stored) continuedBy(next *Stored) bool {
	return next.HasParent && next.Parent == s.Hashes[len(s.Hashes)-1] && next.Form == s.Form &&
		len(s.Hashes)+len(next.Hashes) <= maxEventHashes &&
		(s.Tokens > 0) == (next.Tokens > 0) && !s.Set() && // and so both have chunks, or neither
		s.BlockSize == next.BlockSize && s.Medium == next.Medium &&
		s.Group == next.Group && s.GroupKind == next.GroupKind && s.Window == next.Window &&
		s.LoRA == next.LoRA && s.CacheSalt == next.CacheSalt
}

func (r *Removed) sameAs(next *Removed) bool {
	return r.Form == next.Form && r.Group == next.Group && r.Medium == next.Medium
}
