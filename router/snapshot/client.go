package snapshot

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
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
	// Transport carries requests; the default dials within 10 s, follows no proxy and asks for no compression.
	Transport http.RoundTripper
	// IdleTimeout ends a fetch whose peer sends nothing for so long: default 60 s. It must outlast a peer's build.
	IdleTimeout time.Duration
	// Now is the clock of signatures; nil means time.Now.
	Now func() time.Time
}

// Client asks peers for snapshots. It is safe for concurrent use and keeps nothing between calls but connections.
type Client struct{ opts ClientOptions }

// NewClient gives a client.
func NewClient(o ClientOptions) *Client {
	if o.Transport == nil {
		o.Transport = &http.Transport{
			DialContext:        (&net.Dialer{Timeout: connectTimeout}).DialContext,
			DisableCompression: true, IdleConnTimeout: 30 * time.Second, MaxIdleConnsPerHost: 2,
		}
	}
	if o.IdleTimeout == 0 {
		o.IdleTimeout = idleTimeout
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Client{opts: o}
}

// Want is what a fetch is for.
type Want struct {
	// Local are the sections the reader has, with its live ranks: nothing else of a body is delivered.
	Local []LocalSection
	// Ranks, if not nil, are the only ones that are asked for and delivered. The peer filters its one build for them, so
	// few ranks are cheap to read, but not to ask for.
	Ranks []index.Rank
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

// AnyAge is the MaxAge of who takes an export however old.
const AnyAge = time.Duration(-1)

// Cursors asks for the peer's table alone: a live read on its side. The error is a *NoBody, a *Rejection (UnknownFormat,
// Malformed, Unauthentic), of the context or of the network. An upstream peer that is older than the parameter answers
// with a whole body, of which the cursors are read.
func (c *Client) Cursors(ctx context.Context, p Peer) (*Table, error) {
	u := cursorsURL(p)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if p.Upstream {
		return c.upstreamCursors(ctx, u)
	}
	req, err := newRequest(ctx, u, MediaType+";format=2")
	if err != nil {
		return nil, err
	}
	t := &signed.Transport{Base: c.opts.Transport, Keys: c.opts.Keys, Now: c.opts.Now, MaxBody: maxCursorBytes}
	resp, err := t.RoundTrip(req)
	if err != nil {
		return nil, believable(u, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, noBody(resp)
	}
	body, err := io.ReadAll(resp.Body) // held by the transport, and bounded
	if err != nil {
		return nil, fmt.Errorf("read the cursors of %s: %w", u, err)
	}
	table, err := decodeTable2(body)
	if err != nil {
		return nil, err
	}
	table.Builds = builds(resp)
	return table, nil
}

// believable turns an answer that is not signed well into a rejection.
func believable(u string, err error) error {
	for _, is := range []error{signed.ErrMissing, signed.ErrBad, signed.ErrUnknownKey} {
		if errors.Is(err, is) {
			return &Rejection{Reason: Unauthentic, Detail: err.Error()}
		}
	}
	return fmt.Errorf("ask %s: %w", u, err)
}

func (c *Client) upstreamCursors(ctx context.Context, u string) (*Table, error) {
	req, err := newRequest(ctx, u, "application/json")
	if err != nil {
		return nil, err
	}
	resp, err := c.opts.Transport.RoundTrip(req)
	if err != nil {
		return nil, fmt.Errorf("ask %s: %w", u, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, noBody(resp)
	}
	body, err := inflated(resp, resp.Body)
	if err != nil {
		return nil, err
	}
	j := newJSONReader(body)
	h := j.readHead()
	if j.err != nil {
		return nil, j.err
	}
	b := &body1{j: j, table: h.fill(SectionKey{Scheme: index.SchemeSGLang, BlockSize: int(h.blockSize), Bigram: h.bigram}), first: true}
	if j.peek() == ']' {
		b.drain()
	} // else a body: the rest is not read
	return b.table, j.err
}

// Fetch asks for a snapshot of the wanted ranks. It returns when the table is read and vetted; with a *Rejection the body
// may be not nil: then its table is authentic (of an upstream peer: readable) all the same. ctx bounds the whole body,
// which must be closed.
func (c *Client) Fetch(ctx context.Context, p Peer, w Want) (*Body, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	body, err := c.fetch(ctx, cancel, p, w)
	if body == nil {
		cause := context.Cause(ctx)
		cancel(nil)
		if cause != nil && ReasonOf(err) == "" {
			err = cause
		}
		return nil, err
	}
	return body, err
}

func (c *Client) fetch(ctx context.Context, cancel context.CancelCauseFunc, p Peer, w Want) (*Body, error) {
	watch := newIdleWatch(c.opts.IdleTimeout, cancel)
	resp, sig, err := c.ask(ctx, p, w, watch)
	if err != nil {
		return nil, err
	}
	if resp.ContentLength > maxBodyBytes {
		resp.Body.Close()
		return nil, reject(Malformed, "the body has %d bytes, more than %d", resp.ContentLength, int64(maxBodyBytes))
	}
	counted := &countedReader{r: resp.Body, watch: watch}
	body, err := c.open(resp, counted, sig, p, w)
	if body == nil {
		resp.Body.Close()
		return nil, err
	}
	body.ctx, body.cancel, body.closed, body.read = ctx, cancel, resp.Body.Close, &counted.n
	body.table.Builds = builds(resp)
	return body, err
}

// open reads and vets what stands before the first block.
func (c *Client) open(resp *http.Response, r io.Reader, sig string, p Peer, w Want) (*Body, error) {
	if p.Upstream {
		text, err := inflated(resp, r)
		if err != nil {
			return nil, err
		}
		return openBody1(text, w, p.Name)
	}
	if kind := resp.Header.Get("Content-Type"); kind != MediaType {
		return nil, reject(UnknownFormat, "the peer answers with %q", kind)
	}
	return openBody2(newFrameReader(r, func(signature string, d digest) error {
		_, err := signed.VerifyDigest(signature, sig, http.StatusOK, d, c.opts.Keys())
		return err
	}), w, p.Name)
}

// ask gives an answer with status 200, and the signature of the request. A peer that does not know the signing key yet, in
// a rotation, is asked with the other.
func (c *Client) ask(ctx context.Context, p Peer, w Want, watch *idleWatch) (*http.Response, string, error) {
	u := snapshotURL(p, w)
	if p.Upstream {
		req, err := newRequest(ctx, u, "application/json")
		if err != nil {
			return nil, "", err
		}
		req.Header.Set("Accept-Encoding", "gzip")
		resp, err := c.roundTrip(req, watch)
		return resp, "", err
	}
	var keys []signed.Key
	if c.opts.Keys != nil {
		keys = c.opts.Keys()
	}
	err := fmt.Errorf("ask %s: %w", u, signed.ErrNoKeys)
	for _, k := range keys {
		var req *http.Request
		if req, err = newRequest(ctx, u, MediaType+";format=2"); err != nil {
			return nil, "", err
		}
		sig := signed.Sign(req, nil, k, c.opts.Now())
		var resp *http.Response
		if resp, err = c.roundTrip(req, watch); err == nil {
			return resp, sig, nil
		}
		if no, ok := errors.AsType[*NoBody](err); !ok || no.Code != signed.CodeUnknownKey {
			break
		}
	}
	return nil, "", err
}

// roundTrip follows no redirect: whom to ask is not the peer's to say.
func (c *Client) roundTrip(req *http.Request, watch *idleWatch) (*http.Response, error) {
	watch.begin()
	resp, err := c.opts.Transport.RoundTrip(req)
	watch.end()
	if err != nil {
		return nil, fmt.Errorf("ask %s: %w", req.URL, err)
	}
	if resp.StatusCode != http.StatusOK {
		defer resp.Body.Close()
		return nil, noBody(resp)
	}
	return resp, nil
}

func newRequest(ctx context.Context, u, accept string) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u, nil)
	if err != nil {
		return nil, fmt.Errorf("ask %s: %w", u, err)
	}
	req.Header.Set("Accept", accept)
	return req, nil
}
