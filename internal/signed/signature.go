package signed

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Header carries the signature of a request or an answer.
const Header = "X-RouterFleet-Signature"

const version = "v1"

// header is the parsed value of Header.
type header struct {
	keyID string
	unix  int64
	mac   [sha256.Size]byte
}

func (h header) String() string {
	return version + " " + h.keyID + " " + strconv.FormatInt(h.unix, 10) + " " + hex.EncodeToString(h.mac[:])
}

// parseHeader reads the one way a header may be written: anything String would not have written is refused, so a
// value has no second spelling.
func parseHeader(value string) (header, error) {
	if value == "" {
		return header{}, fmt.Errorf("%w: header %s is not there", ErrMissing, Header)
	}
	if len(value) > maxHeaderBytes {
		return header{}, fmt.Errorf("%w: header %s has %d bytes, more than %d", ErrBad, Header, len(value), maxHeaderBytes)
	}
	parts := strings.Split(value, " ")
	if len(parts) != 4 || parts[0] != version {
		return header{}, fmt.Errorf("%w: header %s is not \"v1 <key id> <unix time> <hex>\"", ErrBad, Header)
	}
	h := header{keyID: parts[1]}
	unix, err := strconv.ParseInt(parts[2], 10, 64)
	if err != nil || unix < 0 || len(parts[1]) != idLength || len(parts[3]) != 2*sha256.Size {
		return header{}, fmt.Errorf("%w: header %s has a bad key id, time or length", ErrBad, Header)
	}
	h.unix = unix
	if _, err := hex.Decode(h.mac[:], []byte(parts[3])); err != nil || h.String() != value {
		return header{}, fmt.Errorf("%w: header %s is not in lower-case hex and plain decimals", ErrBad, Header)
	}
	return h, nil
}

// Sign signs the request, sets its header and returns the header's value, which VerifyResponse needs. body is what
// will be sent, nil for none. Host, path and query must not change afterwards.
func Sign(req *http.Request, body []byte, k Key, now time.Time) string {
	h := header{keyID: k.ID, unix: now.Unix()}
	h.mac = sum(k, canonicalRequest(req, body, h.unix))
	value := h.String()
	req.Header.Set(Header, value)
	return value
}

// Verify checks a request against the keys. It returns the header's value and the key that signed. Errors:
// ErrNoKeys, ErrMissing, ErrBad, ErrUnknownKey, *SkewError.
func Verify(req *http.Request, body []byte, keys []Key, now time.Time) (sig string, key Key, err error) {
	if len(keys) == 0 {
		return "", Key{}, ErrNoKeys
	}
	values := req.Header.Values(Header)
	if len(values) > 1 {
		return "", Key{}, fmt.Errorf("%w: header %s is there %d times", ErrBad, Header, len(values))
	}
	h, err := parseHeader(req.Header.Get(Header))
	if err != nil {
		return "", Key{}, err
	}
	key, err = check(h, keys, canonicalRequest(req, body, h.unix))
	if err != nil {
		return "", Key{}, err
	}
	theirs := time.Unix(h.unix, 0)
	if age := now.Sub(theirs); age > Window || age < -Window {
		return "", Key{}, &SkewError{Theirs: theirs, Ours: now}
	}
	return h.String(), key, nil
}

// SignResponse sets the header of an answer to the request whose header value is reqSig.
func SignResponse(h http.Header, reqSig string, status int, body []byte, k Key) {
	request, err := parseHeader(reqSig)
	if err != nil { // reqSig comes from Verify; an answer to anything else stays unsigned and is refused
		return
	}
	out := header{keyID: k.ID, unix: request.unix}
	out.mac = sum(k, canonicalResponse(reqSig, status, body))
	h.Set(Header, out.String())
}

// VerifyResponse checks the answer to the request whose header value is reqSig. Errors as of Verify, without skew:
// the answer's time is the request's.
func VerifyResponse(h http.Header, reqSig string, status int, body []byte, keys []Key) (Key, error) {
	if len(keys) == 0 {
		return Key{}, ErrNoKeys
	}
	got, err := parseHeader(h.Get(Header))
	if err != nil {
		return Key{}, err
	}
	request, err := parseHeader(reqSig)
	if err != nil {
		return Key{}, err
	}
	if got.unix != request.unix {
		return Key{}, fmt.Errorf("%w: the answer is to another request", ErrBad)
	}
	return check(got, keys, canonicalResponse(reqSig, status, body))
}

// check finds the key a header names and compares in constant time. Ids are public; two tokens may share one, so
// each with that id is tried.
func check(h header, keys []Key, message string) (Key, error) {
	known := false
	for _, k := range keys {
		if k.ID != h.keyID || len(k.Secret) == 0 { // an empty token must never verify
			continue
		}
		known = true
		want := sum(k, message)
		if hmac.Equal(want[:], h.mac[:]) {
			return k, nil
		}
	}
	if !known {
		return Key{}, fmt.Errorf("%w: %s", ErrUnknownKey, strconv.Quote(h.keyID))
	}
	return Key{}, fmt.Errorf("%w: it does not match what was sent", ErrBad)
}

func sum(k Key, message string) (out [sha256.Size]byte) {
	mac := hmac.New(sha256.New, k.Secret)
	mac.Write([]byte(message)) // a hash never fails
	return [sha256.Size]byte(mac.Sum(nil))
}

func canonicalRequest(req *http.Request, body []byte, unix int64) string {
	host := req.Host
	if host == "" {
		host = req.URL.Host
	}
	target := req.RequestURI // as received; empty on the sender's side
	if target == "" {
		target = req.URL.RequestURI()
	}
	method := req.Method
	if method == "" {
		method = http.MethodGet
	}
	return strings.Join([]string{
		"routerfleet request v1", method, target, strings.ToLower(host), strconv.FormatInt(unix, 10), bodyHash(body),
	}, "\n")
}

func canonicalResponse(reqSig string, status int, body []byte) string {
	return strings.Join([]string{"routerfleet answer v1", reqSig, fmt.Sprintf("%03d", status), bodyHash(body)}, "\n")
}

func bodyHash(body []byte) string {
	h := sha256.Sum256(body)
	return hex.EncodeToString(h[:])
}

// onlyKnown drops keys without a secret, so that they count as no keys at all.
func onlyKnown(keys []Key) []Key {
	return slices.DeleteFunc(slices.Clone(keys), func(k Key) bool { return len(k.Secret) == 0 })
}
