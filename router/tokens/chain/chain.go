// Package chain finds the tokens of a request's prompt by the first way that knows them: the model's own files, else the
// engine.
//
// The one invariant: tokens that it gives are the engine's for this prompt as far as anybody knows; a way of which it is
// known that it differs is passed over (package parity). Without tokens it says why.
//
//	own      the model's tokenizer.json and chat template, unless parity distrusts them
//	engine   /tokenize or /render of an engine that serves the model, in time; of a chat that the engine cannot render, the
//	         text by our template and the tokens by the engine
//
// A Chain is for any number of goroutines.
package chain

import (
	"context"
	"errors"
	"time"

	"github.com/routerfleet/routerfleet/router/tokens/bpe"
	"github.com/routerfleet/routerfleet/router/tokens/chat"
	"github.com/routerfleet/routerfleet/router/tokens/jinja"
	"github.com/routerfleet/routerfleet/router/tokens/model"
	"github.com/routerfleet/routerfleet/router/tokens/parity"
	"github.com/routerfleet/routerfleet/router/tokens/remote"
)

// Path is the way by which tokens came.
type Path uint8

// Paths.
const (
	None Path = iota
	Own
	Engine

	paths
)

// String is the metric label.
func (p Path) String() string { return [...]string{"none", "own", "engine"}[min(p, paths-1)] }

// Reason is why there are no tokens.
type Reason uint8

// Reasons. NoTokenizer: there is no way at all; Distrusted: the own way is known to differ and no other knew; Unanswered: an
// engine could have told and did not in time; Refused: the template, or the engine, refuses the prompt; Media and Options:
// the prompt has parts or members whose effect is not known; TooLong and Unreadable are of the prompt; Busy: it is long, and
// others that are were being read.
const (
	Found Reason = iota
	NoTokenizer
	Distrusted
	Unanswered
	Refused
	Media
	Options
	TooLong
	Unreadable
	Busy
)

// Request is a prompt.
type Request struct {
	// Model is the model as its engines know it; Served the name of the request, which may be an adapter's.
	Model, Served string
	Dialect       chat.Dialect
	Kind          parity.Kind
	Text          string
	Bare          bool   // a text without special tokens around it
	Chat          []byte // the body of a chat request; nil for a text
	Day           time.Time
	// Engine chooses whom to ask; false when there is nobody. nil: nobody is asked.
	Engine func() (remote.Engine, bool)
	// Asked is set to the question of which tokens of path Engine are the answer. nil: nobody wants it.
	Asked *remote.Prompt
}

func (r Request) prompt() remote.Prompt {
	return remote.Prompt{Model: r.Served, Text: r.Text, Bare: r.Bare, Chat: r.Chat}
}

// OwnWay is a model's own way; *model.Model is one.
type OwnWay interface {
	parity.Encoder
	Chats() bool
	Render(body []byte, d chat.Dialect, day time.Time) (text string, bare bool, err error)
}

var _ OwnWay = (*model.Model)(nil)

// Asker asks an engine; *remote.Client is one.
type Asker interface {
	Tokens(ctx context.Context, e remote.Engine, p remote.Prompt) ([]uint32, error)
	// Heard takes whether tokens that were told turned out right.
	Heard(d chat.Dialect, p remote.Prompt, told []uint32, right bool)
}

// Chain is the ways there are. A zero one knows none.
type Chain struct {
	// Models gives a model's own files, nil without.
	Models func(name string) OwnWay
	// Trusted says whether they make the engines' tokens. nil: always.
	Trusted func(parity.Group) bool
	// Asker asks engines; nil: they are not asked.
	Asker Asker

	gate gate
}

// Tokens appends the prompt's tokens to dst. Path None comes with a reason, and dst as it was.
func (c *Chain) Tokens(ctx context.Context, dst []uint32, r Request) ([]uint32, Path, Reason) {
	own := c.own(r.Model)
	why := NoTokenizer
	if own != nil && (r.Chat == nil || own.Chats()) {
		if c.Trusted == nil || c.Trusted(parity.Group{Model: r.Model, Dialect: r.Dialect, Kind: r.Kind}) {
			tokens, err := c.encode(ctx, own, dst, r)
			if err == nil {
				return tokens, Own, Found
			}
			switch why = reason(err); why {
			case Media, Refused, TooLong, Unreadable, Busy:
				return dst, None, why // no other way reads it better
			}
		} else {
			why = Distrusted
		}
	}
	if r.Engine == nil || c.Asker == nil {
		return dst, None, why
	}
	return c.ask(ctx, dst, r, own, why)
}

// Own appends what the model's own files make of the prompt to dst, trusted or not. It is for comparing.
func (c *Chain) Own(ctx context.Context, dst []uint32, r Request) ([]uint32, error) {
	own := c.own(r.Model)
	if own == nil {
		return dst, model.ErrNoTemplate
	}
	return c.encode(ctx, own, dst, r)
}

func (c *Chain) own(name string) OwnWay {
	if c.Models == nil {
		return nil
	}
	return c.Models(name)
}

func (c *Chain) encode(ctx context.Context, own OwnWay, dst []uint32, r Request) (tokens []uint32, err error) {
	tokens = dst
	err = c.gate.pass(ctx, len(r.Text)+len(r.Chat), func() (err error) {
		if r.Chat != nil {
			tokens, err = own.Chat(dst, r.Chat, r.Dialect, r.Day)
		} else {
			tokens, err = own.Text(dst, r.Text, r.Bare)
		}
		return err
	})
	return tokens, err
}

func (c *Chain) render(ctx context.Context, own OwnWay, r Request) (p remote.Prompt, err error) {
	p.Model = r.Served
	err = c.gate.pass(ctx, len(r.Chat), func() (err error) {
		p.Text, p.Bare, err = own.Render(r.Chat, r.Dialect, r.Day)
		return err
	})
	return p, err
}

// ask asks an engine; why is what the own way said.
func (c *Chain) ask(ctx context.Context, dst []uint32, r Request, own OwnWay, why Reason) ([]uint32, Path, Reason) {
	engine, ok := r.Engine()
	if !ok {
		return dst, None, why
	}
	if r.Chat != nil {
		if err := c.gate.pass(ctx, len(r.Chat), func() error { return chat.OnlyText(r.Chat) }); err != nil {
			return dst, None, reason(err)
		}
	}
	asked := r.prompt()
	tokens, err := c.Asker.Tokens(ctx, engine, asked)
	if errors.Is(err, remote.ErrUnsupported) && r.Chat != nil && own != nil && own.Chats() {
		// Our text and the engine's tokenizer. Chats that parity distrusts may be so for their template: of these only
		// texts would be right.
		if why == Distrusted {
			return dst, None, why
		}
		if rendered, renderErr := c.render(ctx, own, r); renderErr == nil {
			asked = rendered
			tokens, err = c.Asker.Tokens(ctx, engine, asked)
		}
	}
	switch {
	case err == nil:
		if r.Asked != nil {
			*r.Asked = asked
		}
		return append(dst, tokens...), Engine, Found
	case errors.Is(err, remote.ErrUnsupported):
		return dst, None, why
	case errors.Is(err, remote.ErrTooLong):
		return dst, None, TooLong
	}
	return dst, None, Unanswered
}

// reason of an error of the own way.
func reason(err error) Reason {
	switch {
	case errors.Is(err, errBusy):
		return Busy
	case errors.Is(err, chat.ErrMedia):
		return Media
	case errors.Is(err, chat.ErrOptions):
		return Options
	case errors.Is(err, chat.ErrInvalid), errors.Is(err, bpe.ErrNotUTF8):
		return Unreadable
	case errors.Is(err, bpe.ErrTooLong), errors.Is(err, jinja.ErrLimit), errors.Is(err, chat.ErrTooLong), errors.Is(err, errLong):
		return TooLong
	}
	if _, ok := errors.AsType[*jinja.RaisedError](err); ok {
		return Refused
	}
	return Options // the template does something that is not supported
}
