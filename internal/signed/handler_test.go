package signed

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// clock is a fixed time both sides of a test share unless they say otherwise.
func clock(at time.Time) func() time.Time { return func() time.Time { return at } }

func ring(tokens ...[]byte) Keyring {
	var keys []Key
	for _, t := range tokens {
		keys = append(keys, NewKey(t))
	}
	return func() []Key { return keys }
}

var echo = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	c, _ := CallerOf(r.Context())
	w.Header().Set("X-Caller", string(c.Role)+"/"+c.KeyID)
	w.WriteHeader(http.StatusAccepted)
	_, _ = w.Write(append([]byte("got "), body...))
})

func serve(t *testing.T, next http.Handler, o Options) *httptest.Server {
	t.Helper()
	if o.Now == nil {
		o.Now = clock(now)
	}
	srv := httptest.NewServer(Handler(next, o))
	t.Cleanup(srv.Close)
	return srv
}

func call(t *testing.T, tr *Transport, method, url, body string) (*http.Response, string, error) {
	t.Helper()
	if tr.Now == nil {
		tr.Now = clock(now)
	}
	var reader io.Reader
	if body != "" {
		reader = strings.NewReader(body)
	}
	req, err := http.NewRequest(method, url, reader)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := (&http.Client{Transport: tr}).Do(req)
	if err != nil {
		return nil, "", err
	}
	defer resp.Body.Close()
	got, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, string(got), nil
}

func code(t *testing.T, body string) string {
	t.Helper()
	var doc struct {
		Error struct{ Code, Message string }
	}
	if err := json.Unmarshal([]byte(body), &doc); err != nil {
		t.Fatalf("%q is no error document: %v", body, err)
	}
	if doc.Error.Message == "" {
		t.Fatalf("%q says nothing", body)
	}
	return doc.Error.Code
}

func TestSignedCallsPassBothWays(t *testing.T) {
	srv := serve(t, echo, Options{Keys: ring(oldToken)})
	for _, c := range []struct{ method, body, want string }{
		{"GET", "", "got "}, {"POST", "hello", "got hello"}, {"HEAD", "", ""},
	} {
		resp, body, err := call(t, &Transport{Keys: ring(oldToken)}, c.method, srv.URL+"/x?y=1", c.body)
		if err != nil {
			t.Fatalf("%s: %v", c.method, err)
		}
		if resp.StatusCode != http.StatusAccepted || body != c.want || resp.Header.Get("X-Caller") != "peer/"+NewKey(oldToken).ID {
			t.Fatalf("%s: got %d %q by %s", c.method, resp.StatusCode, body, resp.Header.Get("X-Caller"))
		}
	}
}

func TestARotationNeverBreaksACall(t *testing.T) {
	for _, c := range []struct {
		name           string
		client, server Keyring
	}{
		{"nobody has the new one", ring(oldToken), ring(oldToken)},
		{"the client has it first", ring(newToken, oldToken), ring(oldToken)},
		{"the server has it first", ring(oldToken), ring(newToken, oldToken)},
		{"both have both", ring(newToken, oldToken), ring(newToken, oldToken)},
		{"the old one is gone at the client", ring(newToken), ring(newToken, oldToken)},
	} {
		t.Run(c.name, func(t *testing.T) {
			srv := serve(t, echo, Options{Keys: c.server})
			resp, body, err := call(t, &Transport{Keys: c.client}, "POST", srv.URL+"/x", "hi")
			if err != nil || resp.StatusCode != http.StatusAccepted || body != "got hi" {
				t.Fatalf("got %v %q %v", resp, body, err)
			}
		})
	}
}

func TestRefusalsHaveStatusAndCode(t *testing.T) {
	deny := func(Caller, *http.Request) bool { return false }
	for _, c := range []struct {
		name   string
		server Options
		client Transport
		body   string
		status int
		code   string
	}{
		{"unknown key", Options{Keys: ring(oldToken)}, Transport{Keys: ring(newToken)}, "", 401, CodeUnknownKey},
		{"clock skew", Options{Keys: ring(oldToken)}, Transport{Keys: ring(oldToken), Now: clock(now.Add(-2 * Window))}, "", 401, CodeSkew},
		{"not allowed", Options{Keys: ring(oldToken), Allow: deny}, Transport{Keys: ring(oldToken)}, "", 403, CodeNotAllowed},
		{"no token here", Options{}, Transport{Keys: ring(oldToken)}, "", 401, CodeNoKeys},
	} {
		t.Run(c.name, func(t *testing.T) {
			srv := serve(t, echo, c.server)
			resp, body, err := call(t, &c.client, "GET", srv.URL+"/x", c.body)
			if err != nil {
				t.Fatal(err)
			}
			if resp.StatusCode != c.status || code(t, body) != c.code || resp.Header.Get("X-RouterFleet-Error-Code") != c.code {
				t.Fatalf("got %d %s, want %d %s", resp.StatusCode, body, c.status, c.code)
			}
			if c.code == CodeSkew && !(strings.Contains(body, now.UTC().Format(time.RFC3339)) &&
				strings.Contains(body, now.Add(-2*Window).UTC().Format(time.RFC3339))) {
				t.Fatalf("%s does not name both clocks", body)
			}
		})
	}
}

func TestABodyBeyondTheLimitIs413AndNeverReachesTheHandler(t *testing.T) {
	reached := false
	srv := serve(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached = true }),
		Options{Keys: ring(oldToken), MaxBody: 8})
	req, err := http.NewRequest("POST", srv.URL+"/x", strings.NewReader("123456789"))
	if err != nil {
		t.Fatal(err)
	}
	Sign(req, []byte("123456789"), NewKey(oldToken), now)
	resp, err := srv.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusRequestEntityTooLarge || reached {
		t.Fatalf("got %d, reached=%v", resp.StatusCode, reached)
	}
	if resp, body, err := call(t, &Transport{Keys: ring(oldToken)}, "POST", srv.URL+"/x", "12345678"); err != nil || resp.StatusCode != 200 || !reached {
		t.Fatalf("a body at the limit: %v %q %v", resp, body, err)
	}
}

func TestAnAnswerBeyondTheLimitIsASignedError(t *testing.T) {
	srv := serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, strings.Repeat("x", 2000))
	}), Options{Keys: ring(oldToken), MaxBody: 1000})
	resp, body, err := call(t, &Transport{Keys: ring(oldToken)}, "GET", srv.URL+"/x", "")
	if err != nil || resp.StatusCode != 500 || code(t, body) != CodeInternal {
		t.Fatalf("got %v %q %v", resp, body, err)
	}
}

func TestBearersOnlyRead(t *testing.T) {
	bearers := func() []Bearer {
		return []Bearer{{RoleAdmin, []byte("admin-token-0123")}, {RoleView, []byte("view-token-01234")}, {RoleView, nil}}
	}
	srv := serve(t, echo, Options{Keys: ring(oldToken), Bearers: bearers})
	for _, c := range []struct {
		method, authorization string
		status                int
		caller                string
	}{
		{"GET", "Bearer admin-token-0123", 202, "admin/"},
		{"GET", "bearer view-token-01234", 202, "view/"},
		{"HEAD", "Bearer view-token-01234", 202, "view/"},
		{"POST", "Bearer admin-token-0123", 403, ""},
		{"GET", "Bearer admin-token-0124", 401, ""},
		{"GET", "Bearer ", 401, ""},
		{"GET", "Basic admin-token-0123", 401, ""},
		{"GET", "Bearer " + string(oldToken), 401, ""}, // the peer token is no bearer
		{"GET", "", 401, ""},
	} {
		req, err := http.NewRequest(c.method, srv.URL+"/internal/bootstrap", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", c.authorization)
		resp, err := srv.Client().Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != c.status || resp.Header.Get("X-Caller") != c.caller {
			t.Errorf("%s with %q: got %d by %q, want %d by %q", c.method, c.authorization, resp.StatusCode,
				resp.Header.Get("X-Caller"), c.status, c.caller)
		}
		if resp.Header.Get(Header) != "" {
			t.Errorf("%s with %q: the answer to a bearer is signed", c.method, c.authorization)
		}
	}
}

func TestWithoutTokensEveryCallIsToldWhatToDo(t *testing.T) {
	srv := serve(t, echo, Options{})
	resp, err := srv.Client().Get(srv.URL + "/internal/bootstrap")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, _ := io.ReadAll(resp.Body)
	if resp.StatusCode != 401 || code(t, string(body)) != CodeNoKeys || !strings.Contains(string(body), "--token-dir") {
		t.Fatalf("got %d %s", resp.StatusCode, body)
	}
}

func TestAPodThatCannotSignIsNotBelieved(t *testing.T) {
	impostor := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/echo") {
			w.Header().Set(Header, r.Header.Get(Header))
		}
		if strings.HasSuffix(r.URL.Path, "401") { // refusals may be unsigned, not badly signed
			w.WriteHeader(http.StatusUnauthorized)
		}
		_, _ = io.WriteString(w, `{"state":"settled"}`)
	}))
	defer impostor.Close()
	for path, want := range map[string]error{"/plain": ErrMissing, "/echo": ErrBad, "/echo401": ErrBad} {
		if _, _, err := call(t, &Transport{Keys: ring(oldToken)}, "GET", impostor.URL+path, ""); !errors.Is(err, want) {
			t.Errorf("%s: got %v, want %v", path, err, want)
		}
	}
}

func TestATransportWithoutKeysSendsNothing(t *testing.T) {
	called := false
	srv := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { called = true }))
	defer srv.Close()
	_, _, err := call(t, &Transport{Keys: func() []Key { return []Key{NewKey(nil)} }}, "GET", srv.URL, "")
	if !errors.Is(err, ErrNoKeys) || called {
		t.Fatalf("got %v, called=%v", err, called)
	}
}
