package snapshot

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/routerfleet/routerfleet/internal/signed"
	"github.com/routerfleet/routerfleet/router/cursor"
	"github.com/routerfleet/routerfleet/router/index"
)

// Peer is whom to ask.
type Peer struct {
	Name string // for logs and SeededFrom: the pod UID if known
	URL  string // http://addr:port, without a path
	// Upstream is a router of the open stack (migration mode): it speaks format 1, without credentials, on its http port.
	Upstream bool
}

// ClientOptions configure a Client. Zero fields take the documented default.
type ClientOptions struct {
	// Keys sign requests and check answers. Only upstream peers are asked without.
	Keys signed.Keyring
	// Transport carries requests; the default dials within 10 s and follows no proxy.
	Transport http.RoundTripper
	// IdleTimeout ends a fetch whose peer sends nothing for so long: default 60 s. It must outlast a peer's build.
	IdleTimeout time.Duration
	// Now is the clock of signatures; nil means time.Now.
	Now func() time.Time
}

// Client asks peers for snapshots. It is safe for concurrent use and keeps nothing between calls.
type Client struct{ opts ClientOptions }

// NewClient gives a client.
func NewClient(o ClientOptions) *Client { return &Client{opts: o} }

// Want is what a fetch is for.
type Want struct {
	// Local are the sections the reader has, with its live ranks: nothing else of a body is delivered.
	Local []LocalSection
	// MaxAge is the oldest export the reader accepts; negative: any.
	MaxAge time.Duration
}

// LocalSection is one of the reader's indexes. BlockSize 0 accepts any (format 1, before the first engine told it).
type LocalSection struct {
	Key   SectionKey
	Ranks []LocalRank
}

// LocalRank is one of the reader's live ranks.
type LocalRank struct {
	Rank   index.Rank
	Worker Worker
	// Cursor's incarnation is the one to match: its start as far as it is known. Its seq and time count only while its
	// proof is known.
	Cursor cursor.Cursor
}

// Cursors asks for the peer's table alone: a live read on its side. The error is a *NoBody, a *Rejection
// (UnknownFormat, Malformed), of the context or of the network. An upstream peer that is older than the parameter answers
// with a whole body, of which the cursors are read.
func (c *Client) Cursors(ctx context.Context, p Peer) (*Table, error) {
	return nil, errors.ErrUnsupported
}

// Fetch asks for a snapshot of the wanted ranks. It returns when the table is read and vetted; with a *Rejection the body
// may be not nil: then its table is authentic (of an upstream peer: readable) all the same. ctx bounds the whole body,
// which must be closed.
func (c *Client) Fetch(ctx context.Context, p Peer, w Want) (*Body, error) {
	return nil, errors.ErrUnsupported
}
