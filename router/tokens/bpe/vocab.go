package bpe

// grow makes room for the text of an id.
func (t *Tokenizer) grow(id uint32) error {
	if id >= maxVocab {
		return unsupported("id %d is not below %d", id, maxVocab)
	}
	for int(id) >= len(t.texts) {
		t.texts = append(t.texts, "")
	}
	return nil
}

// setVocab reads the texts of ids out of the byte alphabet.
func (t *Tokenizer) setVocab(f *file) error {
	t.vocab = make(map[string]uint32, len(f.model.vocab))
	var raw []byte
	for written, id := range f.model.vocab {
		if err := t.grow(id); err != nil {
			return err
		}
		if t.texts[id] != "" {
			return unsupported("the vocabulary has two tokens with id %d", id)
		}
		// What is not written in the alphabet is no text of words: an added token that the vocabulary has, too.
		text := written
		var ok bool
		if raw, ok = byteAlphabet().read(raw[:0], written); ok && len(raw) > 0 {
			text = string(raw)
			t.vocab[text] = id
		}
		t.texts[id] = text
	}
	for b := range t.byteIDs {
		id, ok := t.vocab[string([]byte{byte(b)})]
		if !ok && !neverInUTF8(b) {
			return unsupported("the vocabulary lacks a token for byte 0x%02x, written %q: this BPE is not byte-level", b, byteAlphabet().runes[b])
		}
		t.byteIDs[b] = id
	}
	return nil
}

func (t *Tokenizer) setMerges(f *file) error {
	t.pairs = newPairTable(len(f.model.merges))
	vocab := f.model.vocab
	var both []byte
	for rank, m := range f.model.merges {
		both = append(append(both[:0], m[0]...), m[1]...)
		left, ok1 := vocab[m[0]]
		right, ok2 := vocab[m[1]]
		merged, ok3 := vocab[string(both)]
		if !ok1 || !ok2 || !ok3 {
			return unsupported("merge %d of %.100q and %.100q is not of tokens to a token of the vocabulary", rank, m[0], m[1])
		}
		t.pairs.put(left, right, uint32(rank), merged)
	}
	return nil
}

// setDirect finds the words that are one token: with ignore_merges all of the vocabulary, else those that merging leads to.
// It is what most words are, and one look-up.
func (t *Tokenizer) setDirect(ignoreMerges bool) {
	var ids []uint32
	for text, id := range t.vocab {
		if !ignoreMerges {
			if ids = t.merge(ids[:0], text); len(ids) != 1 || ids[0] != id {
				delete(t.vocab, text)
				continue
			}
		}
		t.longest = max(t.longest, len(text))
	}
}

// setAdded checks that ids are those the reference gives: a token of the vocabulary keeps its own, others are counted on.
func (t *Tokenizer) setAdded(f *file) error {
	next := uint32(len(f.model.vocab))
	seen := make(map[string]bool, len(f.added))
	for _, a := range f.added {
		if a.Content == "" || len(a.Content) > maxTokenBytes || seen[a.Content] {
			return unsupported("added token %d is empty, longer than %d bytes or there twice", a.ID, maxTokenBytes)
		}
		seen[a.Content] = true
		want, ok := f.model.vocab[a.Content]
		if !ok {
			want = next
		}
		if err := t.grow(a.ID); err != nil {
			return err
		}
		if a.ID != want || !ok && t.texts[a.ID] != "" {
			return unsupported("added token %.100q has id %d in the file, and the reference gives it %d or another token has it", a.Content, a.ID, want)
		}
		next = max(next, a.ID+1)
		t.texts[a.ID] = a.Content
	}
	var err error
	if t.added, t.normalized, err = splitAdded(f.added, t.nfc); err != nil {
		return err
	}
	t.cutsLines = t.cutsLines && len(t.normalized.tokens) == 0
	return nil
}
