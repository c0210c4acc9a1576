package signed

import (
	"crypto/sha256"
	"errors"
	"net/http"
	"testing"
	"time"
)

func TestASignedDigestIsTheSignatureOfTheBody(t *testing.T) {
	k, other := NewKey([]byte("0123456789abcdef-a")), NewKey([]byte("0123456789abcdef-b"))
	req, err := http.NewRequest(http.MethodGet, "http://peer:9400/internal/kv_snapshot?max_age_ms=0", nil)
	if err != nil {
		t.Fatal(err)
	}
	sig := Sign(req, nil, k, time.Unix(1_800_000_000, 0))
	body := []byte("a body")
	digest := sha256.Sum256(body)
	h := http.Header{}
	SignResponse(h, sig, 200, body, k)
	value := SignDigest(sig, 200, digest, k)
	if value != h.Get(Header) || value == "" {
		t.Fatalf("got %q, want %q", value, h.Get(Header))
	}
	if _, err := VerifyDigest(value, sig, 200, digest, []Key{other, k}); err != nil {
		t.Fatalf("its own value: %v", err)
	}
	later := Sign(req, nil, k, time.Unix(1_800_000_001, 0))
	for name, c := range map[string]struct {
		value, sig string
		status     int
		digest     [32]byte
		keys       []Key
		want       error
	}{
		"another body":    {value, sig, 200, sha256.Sum256([]byte("b")), []Key{k}, ErrBad},
		"another status":  {value, sig, 206, digest, []Key{k}, ErrBad},
		"another request": {value, later, 200, digest, []Key{k}, ErrBad},
		"another key":     {value, sig, 200, digest, []Key{other}, ErrUnknownKey},
		"no key":          {value, sig, 200, digest, nil, ErrNoKeys},
		"no value":        {"", sig, 200, digest, []Key{k}, ErrMissing},
	} {
		if _, err := VerifyDigest(c.value, c.sig, c.status, c.digest, c.keys); !errors.Is(err, c.want) {
			t.Errorf("%s: got %v, want %v", name, err, c.want)
		}
	}
	if got := SignDigest("no header", 200, digest, k); got != "" {
		t.Errorf("an answer to nothing is signed: %q", got)
	}
}
