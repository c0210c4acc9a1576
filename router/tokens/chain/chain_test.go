package chain

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/routerfleet/routerfleet/router/tokens/bpe"
	"github.com/routerfleet/routerfleet/router/tokens/chat"
	"github.com/routerfleet/routerfleet/router/tokens/jinja"
	"github.com/routerfleet/routerfleet/router/tokens/parity"
	"github.com/routerfleet/routerfleet/router/tokens/remote"
)

// own answers 1 to texts and 2 to chats, or with err.
type own struct {
	err   error
	texts bool // there is no template
}

func (o own) Text(dst []uint32, _ string, _ bool) ([]uint32, error) { return append(dst, 1), o.err }
func (o own) Chat(dst []uint32, _ []byte, _ chat.Dialect, _ time.Time) ([]uint32, error) {
	return append(dst, 2), o.err
}
func (o own) Chats() bool { return !o.texts }
func (o own) Render([]byte, chat.Dialect, time.Time) (string, bool, error) {
	return "rendered", true, o.err
}

// asker answers 3 to texts, 4 to chats and 5 to a text that was rendered.
type asker struct{ texts, chats error }

func (a asker) Tokens(_ context.Context, _ remote.Engine, p remote.Prompt) ([]uint32, error) {
	switch {
	case p.Chat != nil:
		return []uint32{4}, a.chats
	case p.Text == "rendered" && p.Bare:
		return []uint32{5}, a.texts
	}
	return []uint32{3}, a.texts
}

func (a asker) Heard(chat.Dialect, remote.Prompt, []uint32, bool) {}

func TestTheFirstWayThatKnowsServes(t *testing.T) {
	text := Request{Model: "m", Text: "x"}
	talk := Request{Model: "m", Chat: []byte("{}"), Kind: parity.Chat}
	shown := Request{Model: "m", Chat: []byte(`{"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"x"}}]}]}`), Kind: parity.Chat}
	timeout := context.DeadlineExceeded
	for name, c := range map[string]struct {
		request    Request
		own        OwnWay
		distrusted bool
		asker      Asker
		want       uint32 // the token, 0: none
		path       Path
		reason     Reason
	}{
		"own text":                      {text, own{}, false, asker{}, 1, Own, Found},
		"own chat":                      {talk, own{}, false, asker{}, 2, Own, Found},
		"distrusted text":               {text, own{}, true, asker{}, 3, Engine, Found},
		"distrusted chat":               {talk, own{}, true, asker{}, 4, Engine, Found},
		"distrusted, nobody to ask":     {text, own{}, true, nil, 0, None, Distrusted},
		"distrusted chat, not rendered": {talk, own{}, true, asker{chats: remote.ErrUnsupported}, 0, None, Distrusted},
		"no template":                   {talk, own{texts: true}, false, asker{}, 4, Engine, Found},
		"no files":                      {text, nil, false, asker{}, 3, Engine, Found},
		"nothing at all":                {text, nil, false, nil, 0, None, NoTokenizer},
		"engine cannot":                 {talk, nil, false, asker{chats: remote.ErrUnsupported}, 0, None, NoTokenizer},
		"engine is late":                {text, nil, false, asker{texts: timeout}, 0, None, Unanswered},
		"too long to ask":               {text, nil, false, asker{texts: remote.ErrTooLong}, 0, None, TooLong},
		"media":                         {talk, own{err: chat.ErrMedia}, false, asker{}, 0, None, Media},
		"media, no files":               {shown, nil, false, asker{}, 0, None, Media},
		"media, distrusted":             {shown, own{}, true, asker{}, 0, None, Media},
		"media and an option":           {shown, own{err: chat.ErrOptions}, false, asker{}, 0, None, Media},
		"refused":                       {talk, own{err: &jinja.RaisedError{}}, false, asker{}, 0, None, Refused},
		"too long":                      {text, own{err: bpe.ErrTooLong}, false, asker{}, 0, None, TooLong},
		"too many values":               {talk, own{err: chat.ErrTooLong}, false, asker{}, 0, None, TooLong},
		"no UTF-8":                      {text, own{err: bpe.ErrNotUTF8}, false, asker{}, 0, None, Unreadable},
		"no chat":                       {talk, own{err: chat.ErrInvalid}, false, asker{}, 0, None, Unreadable},
		"an option, engine knows":       {talk, own{err: chat.ErrOptions}, false, asker{}, 4, Engine, Found},
		"an option, nobody knows":       {talk, own{err: chat.ErrOptions}, false, asker{chats: remote.ErrUnsupported}, 0, None, Options},
		"a template beyond us":          {talk, own{err: errors.New("x")}, false, asker{}, 4, Engine, Found},
		"a template without end":        {talk, own{err: jinja.ErrLimit}, false, asker{}, 0, None, TooLong},
	} {
		ways := Chain{Models: func(string) OwnWay { return c.own }, Trusted: func(parity.Group) bool { return !c.distrusted }, Asker: c.asker}
		c.request.Engine = func() (remote.Engine, bool) { return remote.Engine{ID: "e"}, true }
		got, path, reason := ways.Tokens(t.Context(), []uint32{9}, c.request)
		want := []uint32{9}
		if c.want != 0 {
			want = append(want, c.want)
		}
		if !slices.Equal(got, want) || path != c.path || reason != c.reason {
			t.Errorf("%s: %v by %s, reason %d; want %v by %s, reason %d", name, got, path, reason, want, c.path, c.reason)
		}
	}
}

// A chat that the engine does not render is rendered here and tokenized there, where our template is trusted and our
// tokenizer could not do it.
func TestOurTextMayGetTheEnginesTokens(t *testing.T) {
	ways := Chain{Models: func(string) OwnWay { return optionsOnce{} }, Asker: asker{chats: remote.ErrUnsupported}}
	var asked remote.Prompt
	r := Request{Served: "s", Chat: []byte("{}"), Engine: func() (remote.Engine, bool) { return remote.Engine{}, true }, Asked: &asked}
	got, path, _ := ways.Tokens(t.Context(), nil, r)
	if !slices.Equal(got, []uint32{5}) || path != Engine {
		t.Errorf("%v by %s", got, path)
	}
	if asked.Text != "rendered" || !asked.Bare || asked.Model != "s" || asked.Chat != nil {
		t.Errorf("the question was %+v", asked)
	}
}

// optionsOnce cannot encode and can render.
type optionsOnce struct{ own }

func (optionsOnce) Chat(dst []uint32, _ []byte, _ chat.Dialect, _ time.Time) ([]uint32, error) {
	return dst, errors.New("not this one")
}

func TestAZeroChainKnowsNothing(t *testing.T) {
	var ways Chain
	if got, path, reason := ways.Tokens(t.Context(), nil, Request{Text: "x"}); len(got) != 0 || path != None || reason != NoTokenizer {
		t.Errorf("%v by %s, reason %d", got, path, reason)
	}
}

func TestNobodyIsAskedWhereNobodyServes(t *testing.T) {
	ways := Chain{Asker: asker{}}
	r := Request{Text: "x", Engine: func() (remote.Engine, bool) { return remote.Engine{}, false }}
	if _, path, reason := ways.Tokens(t.Context(), nil, r); path != None || reason != NoTokenizer {
		t.Errorf("by %s, reason %d", path, reason)
	}
}
