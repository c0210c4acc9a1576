package models

// File is what --models-file holds.
type File struct {
	Models []Spec `json:"models"`
}

// Spec is one name that requests may use, and what stands behind it: workers, or a split between other names.
type Spec struct {
	// Name is the model's name as its engines know it, an adapter's too. A name whose split does not lead to itself is
	// the router's alone.
	Name string `json:"name"`
	// Aliases are further names for it. Engines are not told of them.
	Aliases []string `json:"aliases,omitempty"`
	// Selector is a label selector, in the full grammar, of the workers that may serve the model. Empty: every worker
	// whose engine says that it serves it.
	Selector string `json:"selector,omitempty"`
	// Tokenizer is what the model's prompts are read with.
	Tokenizer Tokenizer `json:"tokenizer,omitzero"`
	// Split divides requests for this name between models, itself maybe among them.
	Split []Target `json:"split,omitempty"`
}

// Tokenizer says where the files of a model's tokenizer are. The zero value: nowhere, prompts of text have no block keys
// of the router's own making.
type Tokenizer struct {
	// Path is a directory with tokenizer.json and, for chat, tokenizer_config.json or chat_template.jinja.
	Path string `json:"path,omitempty"`
	// ChatTemplate is a file with the chat template; empty: the one in Path.
	ChatTemplate string `json:"chatTemplate,omitempty"`
}

// Target is one side of a split.
type Target struct {
	// Model is the name of another entry, or of the entry itself.
	Model string `json:"model"`
	// Weight is its share of the sum of all weights; 0 sends it nothing.
	Weight int `json:"weight"`
}

// Tokenizer says what a model's prompts are read with. The name is that of an entry: aliases and splits are resolved
// before. An adapter without an entry has none here: ask with the name of the model it adapts.
func (s *Set) Tokenizer(name string) Tokenizer {
	if s == nil {
		return Tokenizer{}
	}
	if e := s.byName[name]; e != nil {
		return e.Tokenizer
	}
	return Tokenizer{}
}
