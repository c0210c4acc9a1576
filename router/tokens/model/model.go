// Package model turns a request's text or chat into the tokens that one model's engines make of it, by the model's own
// files.
//
// The one invariant is that of its parts: tokens equal the engine's, or there is an error. Whether the files are those of
// the engines nobody can see here; package parity compares.
package model

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/routerfleet/routerfleet/router/tokens/bpe"
	"github.com/routerfleet/routerfleet/router/tokens/chat"
	"github.com/routerfleet/routerfleet/router/tokens/jinja"
)

// Files say where a model's files are.
type Files struct {
	// Path is a directory with tokenizer.json and, for chat, tokenizer_config.json or chat_template.jinja; or a
	// tokenizer.json, whose directory is meant.
	Path string
	// ChatTemplate is a file with the chat template. Empty: the one in the directory.
	ChatTemplate string
	// Kwargs are those the engines were started with (--default-chat-template-kwargs), a JSON object. Empty: none.
	Kwargs string
}

// Model encodes for one model. It is for any number of goroutines.
type Model struct {
	tokenizer *bpe.Tokenizer
	template  *chat.Template // nil when the model has none
	kwargs    *jinja.Dict
	texts     sync.Pool // of *[]byte
}

const fileTokenizer = "tokenizer.json"

// keptText bounds the buffer of a chat's text that is kept for another: a prompt of 250 k tokens.
const keptText = 1 << 20

// Load reads a model's files. A model without a chat template encodes texts only; a template that cannot be read is an
// error that names its file.
func Load(f Files) (*Model, error) {
	info, err := os.Stat(f.Path)
	if err != nil {
		return nil, fmt.Errorf("tokenizer: %w", err)
	}
	dir, file := f.Path, filepath.Join(f.Path, fileTokenizer)
	if !info.IsDir() {
		dir, file = filepath.Dir(f.Path), f.Path
	}
	m := &Model{texts: sync.Pool{New: func() any { return new([]byte) }}}
	if m.tokenizer, err = bpe.LoadFile(file, bpe.Options{}); err != nil {
		return nil, fmt.Errorf("tokenizer %s: %w", file, err)
	}
	if m.template, err = chat.Load(dir, f.ChatTemplate); err != nil {
		if f.ChatTemplate != "" || !errors.Is(err, chat.ErrNone) && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("chat template: %w", err)
		}
		m.template = nil
	}
	if m.kwargs, err = chat.ParseKwargs(f.Kwargs); err != nil {
		return nil, fmt.Errorf("kwargs of the chat template: %w", err)
	}
	return m, nil
}

// Chats says whether there is a chat template.
func (m *Model) Chats() bool { return m.template != nil }

// ErrNoTemplate says that the model's files have no chat template.
var ErrNoTemplate = errors.New("model: no chat template")

// Text appends the tokens of a completion's prompt to dst, with the special tokens that belong around it unless bare.
func (m *Model) Text(dst []uint32, text string, bare bool) ([]uint32, error) {
	frame := bpe.Framed
	if bare {
		frame = bpe.Bare
	}
	return m.tokenizer.Encode(dst, text, frame)
}

// Chat appends the tokens of a chat request's prompt to dst. day is when the request came.
func (m *Model) Chat(dst []uint32, body []byte, d chat.Dialect, day time.Time) ([]uint32, error) {
	if m.template == nil {
		return dst, ErrNoTemplate
	}
	buffer := m.texts.Get().(*[]byte)
	text, err := m.template.Render((*buffer)[:0], body, chat.Options{
		Dialect: d, Kwargs: m.kwargs, MaxBytes: bpe.MaxTextBytes, Now: func() time.Time { return day.UTC() },
	})
	if err == nil {
		dst, err = m.Text(dst, string(text.Text), !text.Framed)
	}
	if cap(text.Text) <= keptText {
		*buffer = text.Text
		m.texts.Put(buffer)
	}
	return dst, err
}

// Render gives the text of a chat request's prompt, and whether special tokens go around it.
func (m *Model) Render(body []byte, d chat.Dialect, day time.Time) (text string, bare bool, err error) {
	if m.template == nil {
		return "", false, ErrNoTemplate
	}
	made, err := m.template.Render(nil, body, chat.Options{Dialect: d, Kwargs: m.kwargs, Now: func() time.Time { return day.UTC() }})
	return string(made.Text), !made.Framed, err
}

// Decode appends the text of tokens to dst.
func (m *Model) Decode(dst []byte, ids []uint32) ([]byte, error) { return m.tokenizer.Decode(dst, ids) }
