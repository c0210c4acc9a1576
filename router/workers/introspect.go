package workers

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/routerfleet/routerfleet/router/kvevents"
)

// facts is what an engine says of itself.
type facts struct {
	models []Model // sorted by id, without duplicates
	dpSize int     // 0 when it did not say
	events eventFacts
}

// eventFacts is what an engine says of its KV event stream, as it says it; package kvevents judges it.
type eventFacts struct {
	info kvevents.ServerInfo
	err  error // what it says cannot be read
}

func (f eventFacts) equal(other eventFacts) bool {
	return (f.err == nil) == (other.err == nil) && (f.err == nil || f.err.Error() == other.err.Error()) && reflect.DeepEqual(f.info, other.info)
}

// asker puts questions to engines over HTTP.
type asker struct {
	client *http.Client
	apiKey func() string
}

func newAsker(o Options) *asker {
	transport := o.Transport
	if transport == nil {
		transport = &http.Transport{MaxIdleConnsPerHost: 1, IdleConnTimeout: 30 * time.Second, DisableCompression: true}
	}
	return &asker{client: &http.Client{
		Transport: transport,
		// A redirect would let an engine name any host the router can reach.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}, apiKey: o.APIKey}
}

// statusError is an answer other than 200.
type statusError struct {
	path string
	code int
}

func (e *statusError) Error() string { return fmt.Sprintf("%s answered %d", e.path, e.code) }

// final says that asking again at once cannot help: the engine understood and refused.
func (e *statusError) final() bool {
	return e.code < 500 && e.code != http.StatusTooManyRequests && e.code != http.StatusRequestTimeout
}

// introspect asks what the engine serves: /server_info (SGLang) for ranks and names, then /v1/models, whose list
// wins because it has every name a request may use (adapters too) with created and owned_by. An engine without
// /server_info (vLLM) is asked for the second only.
func (a *asker) introspect(ctx context.Context, base string) (facts, error) {
	var info serverInfo
	infoErr := a.get(ctx, base, "/server_info", func(b []byte) (err error) { info, err = decodeServerInfo(b); return err })
	if infoErr != nil && !hasNoServerInfo(infoErr) {
		return facts{}, infoErr
	}
	var models []Model
	err := a.get(ctx, base, "/v1/models", func(b []byte) (err error) { models, err = decodeModels(b); return err })
	switch {
	case err == nil && len(models) > 0:
		return facts{models: models, dpSize: info.dpSize, events: info.events}, nil
	case len(info.models) > 0:
		return facts(info), nil
	case err != nil:
		return facts{}, errors.Join(infoErr, err)
	default:
		return facts{dpSize: info.dpSize, events: info.events}, nil
	}
}

// hasNoServerInfo tells an engine that refuses the route, or answers it with something else than JSON, from one
// that is out of reach or reports nonsense.
func hasNoServerInfo(err error) bool {
	var refused *statusError
	return errors.Is(err, errNotJSON) || (errors.As(err, &refused) && refused.final())
}

// probe asks for /health. Any answer below 500 means that the engine is there: a server without the route is
// judged by its requests.
func (a *asker) probe(ctx context.Context, base string) error {
	ctx, cancel := withBudget(ctx, probeTimeout)
	defer cancel()
	resp, err := a.do(ctx, base, "/health")
	if err != nil {
		return err
	}
	defer drain(resp.Body)
	if resp.StatusCode >= 500 {
		return &statusError{"/health", resp.StatusCode}
	}
	return nil
}

// get fetches and decodes one document: three attempts with doubling back-off; a refusal or a document that makes
// no sense is final.
func (a *asker) get(ctx context.Context, base, path string, decode func([]byte) error) error {
	wait := askBackOff
	for attempt := 1; ; attempt++ {
		body, err := a.fetch(ctx, base, path)
		if err == nil {
			if err := decode(body); err != nil {
				return fmt.Errorf("%s: %w", path, err)
			}
			return nil
		}
		var refused *statusError
		if attempt == askAttempts || (errors.As(err, &refused) && refused.final()) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(wait):
		}
		wait *= 2
	}
}

func (a *asker) fetch(ctx context.Context, base, path string) ([]byte, error) {
	ctx, cancel := withBudget(ctx, askTimeout)
	defer cancel()
	resp, err := a.do(ctx, base, path)
	if err != nil {
		return nil, err
	}
	defer drain(resp.Body)
	if resp.StatusCode != http.StatusOK {
		return nil, &statusError{path, resp.StatusCode}
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxFactsBytes+1))
	if err != nil {
		return nil, fmt.Errorf("%s: read body: %w", path, steady(ctx, err))
	}
	if len(body) > maxFactsBytes {
		return nil, fmt.Errorf("%s: body is larger than %d bytes", path, maxFactsBytes)
	}
	return body, nil
}

func (a *asker) do(ctx context.Context, base, path string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(base, "/")+path, nil)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if a.apiKey != nil {
		if key := a.apiKey(); key != "" {
			req.Header.Set("Authorization", "Bearer "+key)
		}
	}
	resp, err := a.client.Do(req)
	if err != nil {
		var outer *url.Error
		if errors.As(err, &outer) { // its text repeats method and URL
			err = outer.Err
		}
		return nil, fmt.Errorf("%s: %w", path, steady(req.Context(), err))
	}
	return resp, nil
}

// drain reads a little more so that the connection can be used again, and closes.
func drain(body io.ReadCloser) {
	_, _ = io.CopyN(io.Discard, body, 4096) // best effort: a failure only costs the connection
	_ = body.Close()
}

type serverInfo struct {
	models []Model
	dpSize int
	events eventFacts
}

// decodeServerInfo reads SGLang's /server_info. Unknown fields are ignored, a document of another kind (vLLM's
// development route has one too) gives nothing and is no error. Nonsense about KV events costs the worker its cache
// awareness, not its place in rotation.
func decodeServerInfo(body []byte) (serverInfo, error) {
	var doc struct {
		ServedModelName names  `json:"served_model_name"`
		ModelPath       string `json:"model_path"`
		DPSize          *int   `json:"dp_size"`
	}
	if err := decodeOne(body, &doc); err != nil {
		return serverInfo{}, err
	}
	var info serverInfo
	info.events.info, info.events.err = kvevents.DecodeServerInfo(body)
	if size := doc.DPSize; size != nil {
		if *size < 1 || *size > maxDPSize {
			return serverInfo{}, fmt.Errorf("dp_size is %d: it must be within 1..%d", *size, maxDPSize)
		}
		info.dpSize = *size
	} else if a := info.events.info.Events; a != nil && a.DPSize != nil && *a.DPSize >= 1 && *a.DPSize <= maxDPSize {
		info.dpSize = int(*a.DPSize)
	}
	served := doc.ServedModelName
	if len(served) == 0 && doc.ModelPath != "" {
		served = names{doc.ModelPath}
	}
	models := make([]Model, 0, min(len(served), maxModels))
	for _, name := range served {
		models = append(models, Model{ID: name})
	}
	var err error
	info.models, err = checkModels(models)
	return info, err
}

// names is a string, a list of strings or null.
type names []string

func (n *names) UnmarshalJSON(b []byte) error {
	if bytes.HasPrefix(b, []byte("[")) {
		var list []string
		err := json.Unmarshal(b, &list)
		*n = list
		return err
	}
	var one *string
	if err := json.Unmarshal(b, &one); err != nil {
		return err
	}
	if one != nil && *one != "" {
		*n = names{*one}
	}
	return nil
}

// decodeModels reads an OpenAI model list.
func decodeModels(body []byte) ([]Model, error) {
	var doc struct {
		Data []struct {
			ID      string      `json:"id"`
			Created json.Number `json:"created"`
			OwnedBy string      `json:"owned_by"`
			Parent  string      `json:"parent"`
		} `json:"data"`
	}
	if err := decodeOne(body, &doc); err != nil {
		return nil, err
	}
	models := make([]Model, 0, min(len(doc.Data), maxModels))
	for _, d := range doc.Data {
		if len(models) == maxModels {
			return nil, tooManyModels(len(doc.Data))
		}
		models = append(models, Model{ID: d.ID, Created: unixSeconds(d.Created), OwnedBy: d.OwnedBy, Parent: d.Parent})
	}
	return checkModels(models)
}

// unixSeconds reads created: some servers write a fraction, some nothing. 0 is unknown.
func unixSeconds(n json.Number) int64 {
	if sec, err := n.Int64(); err == nil {
		return max(0, sec)
	}
	f, err := n.Float64()
	if err != nil || f < 0 || f >= 1<<53 {
		return 0
	}
	return int64(f)
}

func tooManyModels(got int) error {
	return fmt.Errorf("it lists %d models, more than %d", got, maxModels)
}

// checkModels sorts, drops duplicates and refuses what no request could name.
func checkModels(models []Model) ([]Model, error) {
	if len(models) > maxModels {
		return nil, tooManyModels(len(models))
	}
	for _, m := range models {
		if m.ID == "" || len(m.ID) > maxModelIDBytes || len(m.OwnedBy) > maxModelIDBytes || len(m.Parent) > maxModelIDBytes {
			return nil, fmt.Errorf("it lists a model whose id has %d bytes (1..%d allowed)", len(m.ID), maxModelIDBytes)
		}
	}
	slices.SortStableFunc(models, func(a, b Model) int { return cmp.Compare(a.ID, b.ID) })
	return slices.CompactFunc(models, func(a, b Model) bool { return a.ID == b.ID }), nil
}

var errNotJSON = errors.New("not the JSON expected")

func decodeOne(body []byte, into any) error {
	if err := json.Unmarshal(body, into); err != nil {
		return fmt.Errorf("%w: %w", errNotJSON, err)
	}
	return nil
}
