package bpe

import "math"

func (t *Tokenizer) setNormalizer(f *file) error {
	steps, err := flatten(f.normalizer, func(s *step) []step { return s.Normalizers })
	for _, s := range steps {
		if s.Type != "NFC" {
			return unsupported("the normalizer has a step of type %q, and only NFC is known", s.Type)
		}
		t.nfc = true
	}
	return err
}

// flatten gives the steps of a step that may be a Sequence of others.
func flatten(s *step, members func(*step) []step) ([]*step, error) {
	if s == nil {
		return nil, nil
	}
	if s.Type != "Sequence" {
		return []*step{s}, nil
	}
	var flat []*step
	inner := members(s)
	for i := range inner {
		steps, err := flatten(&inner[i], members)
		if err != nil {
			return nil, err
		}
		if flat = append(flat, steps...); len(flat) > maxSteps {
			return nil, unsupported("a Sequence has more than %d steps", maxSteps)
		}
	}
	return flat, nil
}

// setPreTokenizer knows patterns, Digits, and ByteLevel at the end.
func (t *Tokenizer) setPreTokenizer(f *file) error {
	steps, err := flatten(f.preTokenizer, func(s *step) []step { return s.Pretokenizers })
	if err != nil {
		return err
	}
	if len(steps) == 0 || steps[len(steps)-1].Type != "ByteLevel" {
		return unsupported("the pre_tokenizer does not end in ByteLevel: this BPE is not byte-level; run without this model's tokenizer file")
	}
	for i, s := range steps {
		switch s.Type {
		case "Split":
			err = t.addSplit(s)
		case "Digits":
			most := math.MaxInt
			if s.IndividualDigits {
				most = 1
			}
			t.patterns = append(t.patterns, pattern{next: digits{t.chars, most}.next})
		case "ByteLevel":
			err = t.addByteLevel(s, i == 0, i == len(steps)-1)
		default:
			err = unsupported("the pre_tokenizer has a step of type %q; Split, Digits and ByteLevel are known", s.Type)
		}
		if err != nil {
			return err
		}
	}
	t.cutsLines = len(t.patterns) == 1 && t.patterns[0].endsAtLines && !t.prefixSpace
	return nil
}

func (t *Tokenizer) addSplit(s *step) error {
	if s.Pattern.Regex == nil {
		return unsupported("the pre_tokenizer's Split has no Regex")
	}
	p, err := patternOf(*s.Pattern.Regex)
	if err != nil {
		return err
	}
	// Where nothing is between words, to remove what is between is the same as to keep it.
	isolated := s.Behavior == "Isolated" && !s.Invert
	if kept := s.Behavior == "Removed" && s.Invert && p.whole; !isolated && !kept {
		return unsupported("the pre_tokenizer's Split has behavior %q and invert %v; Isolated is known", s.Behavior, s.Invert)
	}
	t.patterns = append(t.patterns, p)
	return nil
}

func (t *Tokenizer) addByteLevel(s *step, first, last bool) error {
	if !last {
		return unsupported("the pre_tokenizer has steps behind ByteLevel")
	}
	if s.AddPrefixSpace == nil || *s.AddPrefixSpace { // true is the reference's default
		if !first {
			return unsupported("the pre_tokenizer's ByteLevel adds a space before each word (add_prefix_space behind another step)")
		}
		t.prefixSpace = true
	}
	if s.UseRegex == nil || *s.UseRegex {
		p, err := patternOf(gpt2Regex)
		t.patterns = append(t.patterns, p)
		return err
	}
	return nil
}

// setFrame reads what is put around a sequence. ByteLevel as a post-processor moves offsets, no tokens.
func (t *Tokenizer) setFrame(f *file) error {
	steps, err := flatten(f.postProcessor, func(s *step) []step { return s.Processors })
	if err != nil {
		return err
	}
	for _, s := range steps {
		switch s.Type {
		case "ByteLevel":
		case "TemplateProcessing":
			if err := t.addTemplate(s); err != nil {
				return err
			}
		default:
			return unsupported("the post_processor has a step of type %q; ByteLevel and TemplateProcessing are known", s.Type)
		}
	}
	return nil
}

func (t *Tokenizer) addTemplate(s *step) error {
	var before, after []uint32
	seen := false
	for _, p := range s.Single {
		switch {
		case p.Sequence != nil && p.Sequence.ID == "A" && !seen:
			seen = true
		case p.SpecialToken != nil:
			token, ok := s.SpecialTokens[p.SpecialToken.ID]
			if !ok {
				return unsupported("the post_processor's template names %.100q, which its special_tokens lack", p.SpecialToken.ID)
			}
			if seen {
				after = append(after, token.IDs...)
			} else {
				before = append(before, token.IDs...)
			}
		default:
			return unsupported("the post_processor's template for one text is not tokens around the text")
		}
	}
	if !seen {
		return unsupported("the post_processor's template for one text leaves the text out")
	}
	t.before, t.after = append(before, t.before...), append(t.after, after...)
	if len(t.before)+len(t.after) > maxFrameTokens {
		return unsupported("the post_processor adds more than %d tokens", maxFrameTokens)
	}
	for _, id := range append(t.before, t.after...) {
		if int(id) >= len(t.texts) || t.texts[id] == "" {
			return unsupported("the post_processor adds id %d, which is no token", id)
		}
	}
	return nil
}
