package httpapi

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"

	"github.com/routerfleet/routerfleet/test/enginesim"
)

// rankHeader chooses the data-parallel rank, as SGLang's DP-aware routers do.
const rankHeader = "X-Data-Parallel-Rank"

// call is one generation request on its way.
type call struct {
	rec     *Record
	faults  requestFaults
	job     *job
	answers []*answer
	head    head
}

// generation serves a route: parse judges its body.
func (s *Server) generation(parse func([]byte) (*job, *apiError)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		body, refusal := readBody(w, r, maxBodyBytes)
		c := &call{rec: s.recorder.begin(r, body, s.opts.Now()), faults: s.faults.takeRequest()}
		// Whatever way this ends, the engine drops what is left of it.
		ctx, cancel := context.WithCancel(r.Context())
		defer cancel()
		err := s.suffer(ctx, w, c)
		if err == nil && refusal != nil {
			err = refusal
		}
		if err == nil {
			err = s.begin(ctx, r, c, body, parse)
		}
		if err == nil {
			err = s.respond(ctx, w, c)
		}
		s.end(w, r, c, err)
	}
}

// suffer does what the active faults want before the request is looked at.
func (s *Server) suffer(ctx context.Context, w http.ResponseWriter, c *call) error {
	if f, on := c.faults.get(FaultDelayHeaders); on {
		s.faults.hit(f.Name)
		if err := wait(ctx, f.delay()); err != nil {
			return err
		}
	}
	if f, on := c.faults.get(FaultReset); on {
		s.faults.hit(f.Name)
		return errors.Join(&faultError{f.Name}, resetConnection(w))
	}
	if f, on := c.faults.get(FaultWrongLength); on {
		s.faults.hit(f.Name)
		return errors.Join(&faultError{f.Name}, writeWrongLength(w, f.LengthDelta))
	}
	if f, on := c.faults.get(FaultStatus); on {
		s.faults.hit(f.Name)
		s.recorder.update(c.rec, func(r *Record) { r.Status = f.Status })
		(&apiError{
			Status: f.Status, Type: strings.ReplaceAll(http.StatusText(f.Status), " ", "") + "Error",
			Message: fmt.Sprintf("The engine double was told to answer %d.", f.Status), RetryAfter: f.RetryAfterSeconds,
		}).write(w)
		return &faultError{f.Name}
	}
	return nil
}

// writeWrongLength answers a 400 whose Content-Length does not fit its body; the
// server library would not let us.
func writeWrongLength(w http.ResponseWriter, delta int) error {
	body := badRequest("", "The engine double was told to lie about the length of this answer.").body()
	conn, buf, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(buf, "HTTP/1.1 400 Bad Request\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body)+delta, body)
	return errors.Join(err, buf.Flush(), conn.Close())
}

// begin parses, checks and submits.
func (s *Server) begin(ctx context.Context, r *http.Request, c *call, body []byte, parse func([]byte) (*job, *apiError)) error {
	j, refusal := parse(body)
	if refusal != nil {
		return refusal
	}
	if refusal := s.fit(j); refusal != nil {
		return refusal
	}
	rank, refusal := rankOf(r)
	if refusal != nil {
		return refusal
	}
	c.job, c.answers, c.head = j, j.plan(), s.head(j.format, c.rec.ID)
	for _, a := range c.answers {
		stream, err := s.opts.Engine.Submit(ctx, enginesim.Request{Prompt: a.prompt, Output: a.output, Rank: rank, CacheSalt: j.cacheSalt})
		if err != nil {
			return err
		}
		a.stream = stream
	}
	s.recorder.update(c.rec, func(r *Record) { r.Rank = c.answers[0].stream.Rank })
	return nil
}

// fit refuses what this engine does not serve or cannot hold, before an answer
// is planned.
func (s *Server) fit(j *job) *apiError {
	if j.model != "" && j.model != s.opts.Model {
		return &apiError{
			Status: http.StatusNotFound, Type: "NotFoundError", Param: "model",
			Message: fmt.Sprintf("The model `%s` does not exist.", j.model),
		}
	}
	if n := len(j.prompts) * j.choices; n > maxSequences {
		return badRequest("n", "at most %d answers are made for one request, %d were asked for", maxSequences, n)
	}
	longest := 0
	for _, prompt := range j.prompts {
		longest = max(longest, len(prompt))
	}
	if j.natural {
		j.maxTokens = min(j.maxTokens, max(1, s.opts.MaxModelLen-longest))
	}
	if longest > s.opts.MaxModelLen || j.maxTokens > s.opts.MaxModelLen-longest {
		return badRequest("max_tokens", "This model's maximum context length is %d tokens. However, you requested %d tokens (%d in the prompt, %d in the completion).",
			s.opts.MaxModelLen, longest+j.maxTokens, longest, j.maxTokens)
	}
	if n := len(j.prompts) * j.choices * j.maxTokens; n > maxOutputTokens {
		return badRequest("max_tokens", "at most %d tokens are made for one request, %d were asked for", maxOutputTokens, n)
	}
	return nil
}

func rankOf(r *http.Request) (int, *apiError) {
	value := r.Header.Get(rankHeader)
	if value == "" {
		return enginesim.AnyRank, nil
	}
	rank, err := strconv.Atoi(value)
	if err != nil || rank < 0 {
		return 0, badRequest("", "header %s: %q is no rank", rankHeader, value)
	}
	return rank, nil
}

// end closes the record and, where nothing was sent yet, answers the error.
func (s *Server) end(w http.ResponseWriter, r *http.Request, c *call, err error) {
	outcome := outcomeOf(r, c, err)
	reason := ""
	if err != nil {
		reason = err.Error()
		s.log(r.Context(), c.rec, outcome, err)
	}
	if outcome == OutcomeRefused || outcome == OutcomeStopped {
		s.answerError(w, c, err)
	}
	s.recorder.update(c.rec, func(rec *Record) {
		if len(c.answers) == 0 || c.answers[len(c.answers)-1].stream == nil {
			return
		}
		u := usageOf(c.answers, c.job.choices)
		rec.PromptTokens, rec.CachedTokens, rec.CompletionTokens = u.PromptTokens, u.Details.CachedTokens, u.CompletionTokens
	})
	s.recorder.end(c.rec, outcome, reason, s.opts.Now())
	if outcome == OutcomeStopped && c.rec.Status == http.StatusOK {
		panic(http.ErrAbortHandler) // a stream broken by shutdown must not look complete
	}
}

// answerError answers err unless a stream has begun. Only this goroutine writes
// the record's status, so it may read it without the lock.
func (s *Server) answerError(w http.ResponseWriter, c *call, err error) {
	if c.rec.Status != 0 {
		return
	}
	answer := asAPIError(err)
	s.recorder.update(c.rec, func(rec *Record) { rec.Status = answer.Status })
	answer.write(w)
}

func outcomeOf(r *http.Request, c *call, err error) Outcome {
	var fault *faultError
	switch {
	case err == nil:
		return OutcomeOK
	case errors.As(err, &fault):
		return OutcomeFault
	case r.Context().Err() != nil:
		return OutcomeClientGone
	case errors.Is(err, enginesim.ErrStopped):
		return OutcomeStopped
	case c.rec.Status == http.StatusOK:
		return OutcomeClientGone // a write failed before the context knew
	default:
		return OutcomeRefused
	}
}

// readBody reads at most limit bytes.
func readBody(w http.ResponseWriter, r *http.Request, limit int64) ([]byte, *apiError) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, limit))
	var tooLarge *http.MaxBytesError
	switch {
	case err == nil:
		return body, nil
	case errors.As(err, &tooLarge):
		return body, &apiError{Status: http.StatusRequestEntityTooLarge, Type: "PayloadTooLargeError", Message: fmt.Sprintf("The body has more than %d bytes.", limit)}
	default:
		return body, badRequest("", "read the body: %v", err)
	}
}

// authorized wants the API key, when there is one.
func (s *Server) authorized(next http.HandlerFunc) http.HandlerFunc {
	if s.opts.APIKey == "" {
		return next
	}
	want := []byte("Bearer " + s.opts.APIKey)
	return func(w http.ResponseWriter, r *http.Request) {
		if subtle.ConstantTimeCompare([]byte(r.Header.Get("Authorization")), want) != 1 {
			(&apiError{Status: http.StatusUnauthorized, Type: "AuthenticationError", Message: "The API key is missing or wrong."}).write(w)
			return
		}
		next(w, r)
	}
}
