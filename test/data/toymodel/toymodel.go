// Package toymodel makes the files of a small language model's tokenizer: byte-level BPE in the form of Llama 3, with a
// chat template. Doubles of engines and routers under test can share one without a download. The files are made here and
// belong to nobody else.
package toymodel

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
)

// The tokens that are no text. BOS goes before completions; the others mark messages.
const (
	BOS   = "<|begin_of_text|>"
	Start = "<|im_start|>"
	End   = "<|im_end|>"
)

// Template is a chat template with tools and a generation prompt.
const Template = `{{- bos_token }}
{%- if tools %}
{{- '<|im_start|>system\nTools:' }}
{%- for tool in tools %}{{- '\n' }}{{- tool | tojson }}{%- endfor %}
{{- '<|im_end|>\n' }}
{%- endif %}
{%- for message in messages %}
{{- '<|im_start|>' + message.role + '\n' }}
{%- if message.content %}{{- message.content }}{%- endif %}
{%- if message.tool_calls %}
{%- for call in message.tool_calls %}{{- '\n' + call.function.name + ' ' }}{{- call.function.arguments | tojson }}{%- endfor %}
{%- endif %}
{{- '<|im_end|>\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\n' }}{%- endif %}`

// Variant is one of several models that differ.
type Variant int

// The variants: the model, one with another vocabulary, and one with another chat template.
const (
	Plain Variant = iota
	OtherVocabulary
	OtherTemplate
)

// words are those the vocabulary has as one token each, beside the bytes.
var words = []string{"the", "and", "ing", "you", "are", "system", "user", "assistant", "weather", "hello", "answer", "question"}

const pattern = `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`

type object = map[string]any

// Write makes tokenizer.json and tokenizer_config.json in a directory that exists.
func Write(dir string, v Variant) error {
	template := Template
	if v == OtherTemplate {
		template = strings.ReplaceAll(Template, `'<|im_end|>\n'`, `'<|im_end|>\n\n'`)
	}
	config := object{"bos_token": BOS, "eos_token": object{"content": End}, "chat_template": template, "tokenizer_class": "PreTrainedTokenizerFast"}
	return errors.Join(write(dir, "tokenizer.json", tokenizer(v)), write(dir, "tokenizer_config.json", config))
}

func write(dir, name string, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, name), data, 0o644)
}

func tokenizer(v Variant) object {
	vocab, merges := vocabulary(v)
	added := []object{}
	for _, content := range []string{BOS, Start, End} {
		added = append(added, object{"id": len(vocab) + len(added), "content": content, "special": true,
			"lstrip": false, "rstrip": false, "single_word": false, "normalized": false})
	}
	level := object{"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false}
	begin := object{"id": BOS, "type_id": 0}
	return object{
		"version": "1.0", "truncation": nil, "padding": nil, "added_tokens": added, "normalizer": nil,
		"pre_tokenizer": object{"type": "Sequence", "pretokenizers": []object{
			{"type": "Split", "pattern": object{"Regex": pattern}, "behavior": "Isolated", "invert": false}, level,
		}},
		"post_processor": object{"type": "TemplateProcessing", "pair": []object{},
			"single":         []object{{"SpecialToken": begin}, {"Sequence": object{"id": "A", "type_id": 0}}},
			"special_tokens": object{BOS: object{"id": BOS, "ids": []int{len(vocab)}, "tokens": []string{BOS}}}},
		"decoder": level,
		"model":   object{"type": "BPE", "dropout": nil, "unk_token": nil, "byte_fallback": false, "vocab": vocab, "merges": merges},
	}
}

// vocabulary numbers the 256 bytes and what merges make of them. The other one knows half of the words.
func vocabulary(v Variant) (vocab map[string]int, merges []string) {
	vocab = map[string]int{}
	for b := range 256 {
		vocab[letter(b)] = b
	}
	known := words
	if v == OtherVocabulary {
		known = words[:len(words)/2]
	}
	for _, w := range known {
		for n := 2; n <= len(w); n++ {
			if _, ok := vocab[w[:n]]; ok {
				continue
			}
			vocab[w[:n]] = len(vocab)
			merges = append(merges, w[:n-1]+" "+w[n-1:n])
		}
	}
	return vocab, merges
}

// letter writes a byte as vocabularies do: what Latin-1 can print stands for itself, the rest from U+0100 on.
func letter(b int) string {
	printable := func(b int) bool { return b >= '!' && b <= '~' || b >= 0xa1 && b <= 0xac || b >= 0xae }
	if printable(b) {
		return string(rune(b))
	}
	others := 0
	for c := range b {
		if !printable(c) {
			others++
		}
	}
	return string(rune(0x100 + others))
}
