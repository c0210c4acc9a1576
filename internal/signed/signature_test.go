package signed

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"
)

var (
	oldToken = []byte("0123456789abcdef0123456789abcdef")
	newToken = []byte("another-token-of-32-characters!!")
	now      = time.Unix(1_790_000_000, 0)
)

func request(t *testing.T, method, target, host, body string) *http.Request {
	t.Helper()
	req, err := http.NewRequest(method, "http://"+host+target, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	return req
}

// The vectors were computed by an independent implementation of the package documentation.
func TestSignaturesEqualTheVectors(t *testing.T) {
	var vectors struct {
		Request []struct {
			Name, Token, Method, Target, Host, Body, Header string
			Unix                                            int64
		}
		Answer []struct {
			Name, Token, Request, Body, Header string
			Status                             int
		}
	}
	raw, err := os.ReadFile("testdata/vectors.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(raw, &vectors); err != nil {
		t.Fatal(err)
	}
	if len(vectors.Request) == 0 || len(vectors.Answer) == 0 {
		t.Fatal("the vector file is empty")
	}
	for _, v := range vectors.Request {
		t.Run("request/"+v.Name, func(t *testing.T) {
			req := request(t, v.Method, v.Target, v.Host, v.Body)
			got := Sign(req, []byte(v.Body), NewKey([]byte(v.Token)), time.Unix(v.Unix, 0))
			if got != v.Header || req.Header.Get(Header) != v.Header {
				t.Fatalf("got  %s\nwant %s", got, v.Header)
			}
		})
	}
	for _, v := range vectors.Answer {
		t.Run("answer/"+v.Name, func(t *testing.T) {
			h := http.Header{}
			SignResponse(h, v.Request, v.Status, []byte(v.Body), NewKey([]byte(v.Token)))
			if got := h.Get(Header); got != v.Header {
				t.Fatalf("got  %s\nwant %s", got, v.Header)
			}
		})
	}
}

func TestVerifyRefusesWhateverWasChanged(t *testing.T) {
	key := NewKey(oldToken)
	const body = `{"a":1}`
	changes := map[string]struct {
		change func(*http.Request) string // returns the body received
		want   error
	}{
		"nothing":   {func(*http.Request) string { return body }, nil},
		"method":    {func(r *http.Request) string { r.Method = "PUT"; return body }, ErrBad},
		"path":      {func(r *http.Request) string { r.URL.Path = "/other"; return body }, ErrBad},
		"query":     {func(r *http.Request) string { r.URL.RawQuery = "b=2&a=1"; return body }, ErrBad},
		"host":      {func(r *http.Request) string { r.Host = "10.0.0.8:9400"; return body }, ErrBad},
		"host case": {func(r *http.Request) string { r.Host = "Peer-A:9400"; return body }, nil},
		"body":      {func(*http.Request) string { return `{"a":2}` }, ErrBad},
		"no body":   {func(*http.Request) string { return "" }, ErrBad},
		"no header": {func(r *http.Request) string { r.Header.Del(Header); return body }, ErrMissing},
		"two headers": {func(r *http.Request) string {
			r.Header.Add(Header, r.Header.Get(Header))
			return body
		}, ErrBad},
		"time": {func(r *http.Request) string {
			r.Header.Set(Header, strings.Replace(r.Header.Get(Header), "1790000000", "1790000001", 1))
			return body
		}, ErrBad},
		"key id": {func(r *http.Request) string {
			r.Header.Set(Header, strings.Replace(r.Header.Get(Header), key.ID, "deadbeef", 1))
			return body
		}, ErrUnknownKey},
		"last digit": {func(r *http.Request) string {
			v := r.Header.Get(Header)
			last := "0"
			if strings.HasSuffix(v, "0") {
				last = "1"
			}
			r.Header.Set(Header, v[:len(v)-1]+last)
			return body
		}, ErrBad},
		"upper-case hex": {func(r *http.Request) string {
			v := r.Header.Get(Header)
			r.Header.Set(Header, "v1"+strings.ToUpper(v[2:]))
			return body
		}, ErrBad},
	}
	for name, c := range changes {
		t.Run(name, func(t *testing.T) {
			req := request(t, "POST", "/fleet/marks?a=1&b=2", "peer-a:9400", body)
			Sign(req, []byte(body), key, now)
			received := c.change(req)
			_, _, err := Verify(req, []byte(received), []Key{key}, now)
			if !errors.Is(err, c.want) || (c.want == nil && err != nil) {
				t.Fatalf("got %v, want %v", err, c.want)
			}
		})
	}
}

func TestVerifyTakesEitherOfTwoTokensAndNoThird(t *testing.T) {
	older, newer, stranger := NewKey(oldToken), NewKey(newToken), NewKey([]byte("a stranger's token, also long"))
	for _, c := range []struct {
		name   string
		signer Key
		want   error
	}{{"older", older, nil}, {"newer", newer, nil}, {"stranger", stranger, ErrUnknownKey}} {
		req := request(t, "GET", "/internal/bootstrap", "a:1", "")
		Sign(req, nil, c.signer, now)
		_, got, err := Verify(req, nil, []Key{newer, older}, now)
		if !errors.Is(err, c.want) {
			t.Fatalf("%s: got %v, want %v", c.name, err, c.want)
		}
		if c.want == nil && got.ID != c.signer.ID {
			t.Fatalf("%s: verified as key %s, signed with %s", c.name, got.ID, c.signer.ID)
		}
	}
}

func TestVerifyRefusesAClockBeyondTheWindowAndNamesBothClocks(t *testing.T) {
	key := NewKey(oldToken)
	for _, c := range []struct {
		ahead time.Duration
		skew  bool
	}{{-61 * time.Second, true}, {-60 * time.Second, false}, {0, false}, {60 * time.Second, false}, {61 * time.Second, true}} {
		req := request(t, "GET", "/x", "a:1", "")
		Sign(req, nil, key, now.Add(c.ahead))
		_, _, err := Verify(req, nil, []Key{key}, now)
		var skew *SkewError
		if errors.As(err, &skew) != c.skew {
			t.Fatalf("a caller %v ahead: got %v", c.ahead, err)
		}
		if c.skew && (!skew.Theirs.Equal(now.Add(c.ahead)) || !skew.Ours.Equal(now)) {
			t.Fatalf("clocks %v and %v, want %v and %v", skew.Theirs, skew.Ours, now.Add(c.ahead), now)
		}
	}
}

func TestAStrangerDoesNotLearnTheClock(t *testing.T) {
	req := request(t, "GET", "/x", "a:1", "")
	Sign(req, nil, NewKey(newToken), now.Add(time.Hour))
	_, _, err := Verify(req, nil, []Key{NewKey(oldToken)}, now)
	var skew *SkewError
	if err == nil || errors.As(err, &skew) {
		t.Fatalf("got %v, want a refusal without clocks", err)
	}
}

func TestAnEmptyTokenNeverVerifies(t *testing.T) {
	empty := NewKey(nil)
	req := request(t, "GET", "/x", "a:1", "")
	Sign(req, nil, empty, now)
	if _, _, err := Verify(req, nil, []Key{empty}, now); err == nil {
		t.Fatal("a signature by the empty token was accepted")
	}
}

func TestAnAnswerCannotBeMovedOrChanged(t *testing.T) {
	key := NewKey(oldToken)
	sign := func(target string) string {
		return Sign(request(t, "GET", target, "a:1", ""), nil, key, now)
	}
	mine, other := sign("/x"), sign("/y")
	later := Sign(request(t, "GET", "/x", "a:1", ""), nil, key, now.Add(time.Second))
	h := http.Header{}
	SignResponse(h, mine, 200, []byte("yes"), key)
	for _, c := range []struct {
		name, request, body string
		status              int
		ok                  bool
	}{
		{"as it was", mine, "yes", 200, true},
		{"another request", other, "yes", 200, false},
		{"the same request later", later, "yes", 200, false},
		{"another status", mine, "yes", 404, false},
		{"another body", mine, "no", 200, false},
	} {
		if _, err := VerifyResponse(h, c.request, c.status, []byte(c.body), []Key{key}); (err == nil) != c.ok {
			t.Errorf("%s: got %v, want ok=%v", c.name, err, c.ok)
		}
	}
	retimed := http.Header{}
	retimed.Set(Header, strings.Replace(h.Get(Header), "1790000000", "1790000001", 1))
	if _, err := VerifyResponse(retimed, mine, 200, []byte("yes"), []Key{key}); !errors.Is(err, ErrBad) {
		t.Errorf("an answer with another time gave %v, want ErrBad", err)
	}
	// A request's own signature sent back is no answer.
	echo := http.Header{Header: {mine}}
	echo.Set(Header, mine)
	if _, err := VerifyResponse(echo, mine, 200, nil, []Key{key}); !errors.Is(err, ErrBad) {
		t.Errorf("an echoed signature gave %v, want ErrBad", err)
	}
}

func TestVerifyOnAServerSeesTheTargetAsItWasSent(t *testing.T) {
	key := NewKey(oldToken)
	var verr error
	srv := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _, verr = Verify(r, nil, []Key{key}, now)
	}))
	defer srv.Close()
	for _, target := range []string{"/", "/a%2Fb", "/a%20b?q=%2c&r", "/?", "/a;b?x=y;z", "//double"} {
		req, err := http.NewRequest("GET", srv.URL+target, nil)
		if err != nil {
			t.Fatal(err)
		}
		Sign(req, nil, key, now)
		resp, err := srv.Client().Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if verr != nil {
			t.Errorf("target %s: %v", target, verr)
		}
	}
}

func FuzzParseHeader(f *testing.F) {
	good := Sign(httptest.NewRequest("GET", "http://a:1/x", nil), nil, NewKey(oldToken), now)
	for _, s := range []string{
		good, "", "v1", "v2" + good[2:], good + " ", " " + good, strings.Replace(good, " ", "  ", 1),
		strings.Replace(good, "1790000000", "+1790000000", 1), strings.Replace(good, "1790000000", "01790000000", 1),
		strings.Replace(good, "1790000000", "-1", 1), strings.Replace(good, "1790000000", "9223372036854775808", 1),
		strings.ToUpper(good), strings.Repeat("a", maxHeaderBytes+1), "v1 \xff\xff\xff\xff\xff\xff\xff\xff 1 " + strings.Repeat("0", 64),
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, value string) {
		h, err := parseHeader(value)
		switch {
		case err == nil && h.String() != value:
			t.Fatalf("%q has a second spelling: %q", value, h.String())
		case err != nil && !errors.Is(err, ErrBad) && !errors.Is(err, ErrMissing):
			t.Fatalf("%q: an error of no kind: %v", value, err)
		}
	})
}
