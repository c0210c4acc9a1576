package index

// Retain drops those ranks of a restore that keep refuses; the others are numbered anew. It is for the end, when it turns
// out that the stream of a rank went on without what was restored: nothing more may be added.
func (r *Restore) Retain(keep func(i int) bool) {
	if r.done {
		return
	}
	kept := r.masked[:0:0]
	for i, m := range r.masked {
		if keep(i) {
			kept = append(kept, m)
			continue
		}
		m.gone = true
		r.x.retireID(m.id)
	}
	r.masked = kept
}
