// Package slicewatchtest is an API server of EndpointSlices in memory, so that the real client-go runs against it inside a
// synctest bubble. Its connections can be cut, it can refuse, its watch cache can forget, and a list can be held in the
// middle.
package slicewatchtest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"sync"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/watch"
	discoveryclient "k8s.io/client-go/kubernetes/typed/discovery/v1"
	"k8s.io/client-go/rest"
)

// Server is the API server. Its zero value is not usable: take New.
type Server struct {
	mu       sync.Mutex
	version  int
	oldest   int
	objects  map[string]*discoveryv1.EndpointSlice
	history  []event
	streams  map[*stream]labels.Selector
	down     bool
	denied   bool
	listOnly bool
	hold     chan struct{}
	asked    []Request
}

// Request is what a client asked.
type Request struct {
	Verb     string // "list" or "watch"
	Path     string
	Selector string
}

type event struct {
	version int
	kind    watch.EventType
	object  *discoveryv1.EndpointSlice
}

type stream struct {
	w     *io.PipeWriter
	queue chan event
}

// New gives a server without slices.
func New() *Server {
	return &Server{version: 100, oldest: 100, objects: map[string]*discoveryv1.EndpointSlice{}, streams: map[*stream]labels.Selector{}}
}

// Client gives a client of the server.
func (s *Server) Client() discoveryclient.EndpointSlicesGetter {
	c, err := discoveryclient.NewForConfig(&rest.Config{Host: "http://api", Transport: s, QPS: -1})
	if err != nil {
		panic(err)
	}
	return c
}

// Put creates or updates a slice.
func (s *Server) Put(o *discoveryv1.EndpointSlice) {
	s.mu.Lock()
	defer s.mu.Unlock()
	kind := watch.Added
	if s.objects[o.Name] != nil {
		kind = watch.Modified
	}
	o = o.DeepCopy()
	s.objects[o.Name] = o
	s.tell(kind, o)
}

// Drop deletes a slice.
func (s *Server) Drop(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o := s.objects[name].DeepCopy()
	delete(s.objects, name)
	s.tell(watch.Deleted, o)
}

func (s *Server) tell(kind watch.EventType, o *discoveryv1.EndpointSlice) {
	s.version++
	o.ResourceVersion = strconv.Itoa(s.version)
	e := event{s.version, kind, o.DeepCopy()}
	s.history = append(s.history, e)
	for st, selector := range s.streams {
		if selector.Matches(labels.Set(o.Labels)) {
			st.queue <- e
		}
	}
}

// Cut ends every watch, as a connection lost; what it was at is forgotten, so that only a fresh list can resume.
func (s *Server) Cut() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.history, s.oldest = nil, s.version+1
	s.version++
	s.breakOff()
}

// Break ends every watch, as a connection lost; it can be resumed where it was.
func (s *Server) Break() { s.set(s.breakOff) }

func (s *Server) breakOff() {
	for st := range s.streams {
		_ = st.w.CloseWithError(io.ErrUnexpectedEOF)
		delete(s.streams, st)
	}
}

// Down has connections fail, or not.
func (s *Server) Down(is bool) { s.set(func() { s.down = is }) }

// Deny has the server answer 403, or not.
func (s *Server) Deny(is bool) { s.set(func() { s.denied = is }) }

// ListOnly has the server refuse streaming lists, as servers before 1.34 do, so that a reflector falls back to LIST.
func (s *Server) ListOnly(is bool) { s.set(func() { s.listOnly = is }) }

// Hold keeps the end of lists back until the channel is closed; nil does not.
func (s *Server) Hold(until chan struct{}) { s.set(func() { s.hold = until }) }

// Requests counts what was asked so far.
func (s *Server) Requests() (n int) {
	s.set(func() { n = len(s.asked) })
	return n
}

// Asked lists what was asked so far.
func (s *Server) Asked() (all []Request) {
	s.set(func() { all = slices.Clone(s.asked) })
	return all
}

func (s *Server) set(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
}

// RoundTrip implements http.RoundTripper: streaming lists and watches, as servers since 1.34 have them, and plain lists.
func (s *Server) RoundTrip(r *http.Request) (*http.Response, error) {
	q := r.URL.Query()
	if hold := s.note(r); hold != nil && q.Get("watch") == "" {
		select {
		case <-hold:
		case <-r.Context().Done():
			return nil, r.Context().Err()
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	selector, err := labels.Parse(q.Get("labelSelector"))
	switch {
	case s.down:
		return nil, errors.New("dial tcp 10.96.0.1:443: connect: connection refused")
	case s.denied:
		return failure(r, 403, metav1.StatusReasonForbidden, "endpointslices is forbidden"), nil
	case err != nil:
		return failure(r, 400, metav1.StatusReasonBadRequest, err.Error()), nil
	case q.Get("watch") == "":
		return reply(r, 200, s.list(selector)), nil
	}
	initial := q.Get("sendInitialEvents") == "true"
	from, _ := strconv.Atoi(q.Get("resourceVersion"))
	switch {
	case initial && s.listOnly:
		return failure(r, 422, metav1.StatusReasonInvalid, "sendInitialEvents is forbidden for watch"), nil
	case !initial && from < s.oldest:
		return failure(r, 410, metav1.StatusReasonExpired, "too old resource version"), nil
	}
	return s.watch(r, selector, initial, from), nil
}

func (s *Server) note(r *http.Request) (hold chan struct{}) {
	q := r.URL.Query()
	verb := "list"
	if q.Get("watch") != "" {
		verb = "watch"
	}
	s.set(func() {
		s.asked = append(s.asked, Request{Verb: verb, Path: r.URL.Path, Selector: q.Get("labelSelector")})
		hold = s.hold
	})
	return hold
}

func (s *Server) list(selector labels.Selector) *discoveryv1.EndpointSliceList {
	list := &discoveryv1.EndpointSliceList{
		TypeMeta: metav1.TypeMeta{Kind: "EndpointSliceList", APIVersion: "discovery.k8s.io/v1"},
		ListMeta: metav1.ListMeta{ResourceVersion: strconv.Itoa(s.version)},
	}
	for _, o := range s.selected(selector) {
		list.Items = append(list.Items, *o)
	}
	return list
}

func (s *Server) selected(selector labels.Selector) (out []*discoveryv1.EndpointSlice) {
	for _, name := range slices.Sorted(maps.Keys(s.objects)) {
		if o := s.objects[name]; selector.Matches(labels.Set(o.Labels)) {
			out = append(out, o.DeepCopy())
		}
	}
	return out
}

func (s *Server) watch(r *http.Request, selector labels.Selector, initial bool, from int) *http.Response {
	pr, pw := io.Pipe()
	st := &stream{w: pw, queue: make(chan event, 256)}
	if initial {
		for _, o := range s.selected(selector) {
			st.queue <- event{s.version, watch.Added, o}
		}
		st.queue <- event{s.version, watch.Bookmark, &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{
			ResourceVersion: strconv.Itoa(s.version), Annotations: map[string]string{metav1.InitialEventsAnnotationKey: "true"},
		}}}
	} else {
		for _, e := range s.history {
			if e.version > from && selector.Matches(labels.Set(e.object.Labels)) {
				st.queue <- e
			}
		}
	}
	s.streams[st] = selector
	go st.serve(r.Context(), s.hold)
	resp := reply(r, 200, nil)
	resp.Body = pr
	return resp
}

// serve writes events until the stream is cut or the client leaves; the bookmark that ends an initial list waits for hold.
func (st *stream) serve(ctx context.Context, hold chan struct{}) {
	for {
		select {
		case <-ctx.Done():
			_ = st.w.CloseWithError(ctx.Err())
			return
		case e := <-st.queue:
			if e.kind == watch.Bookmark && hold != nil {
				select {
				case <-hold:
				case <-ctx.Done():
				}
			}
			object := *e.object // the history has it, too
			object.TypeMeta = metav1.TypeMeta{Kind: "EndpointSlice", APIVersion: "discovery.k8s.io/v1"}
			raw, err := json.Marshal(map[string]any{"type": e.kind, "object": &object})
			if err != nil {
				panic(err)
			}
			if _, err := st.w.Write(append(raw, '\n')); err != nil {
				return
			}
		}
	}
}

func failure(r *http.Request, code int, reason metav1.StatusReason, message string) *http.Response {
	return reply(r, code, metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: "Failure", Code: int32(code), Reason: reason, Message: message,
	})
}

func reply(r *http.Request, code int, body any) *http.Response {
	raw, err := json.Marshal(body)
	if err != nil {
		panic(err)
	}
	return &http.Response{
		StatusCode: code, Status: http.StatusText(code), Request: r, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(bytes.NewReader(raw)),
	}
}
