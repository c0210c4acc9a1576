package signed

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
)

// SignDigest gives the header value that SignResponse would set for a body with this SHA-256. An answer too large to be
// held carries it behind what it signs, in its own format or in the HTTP trailer. It is empty if reqSig is no header value.
func SignDigest(reqSig string, status int, digest [sha256.Size]byte, k Key) string {
	request, err := parseHeader(reqSig)
	if err != nil {
		return ""
	}
	out := header{keyID: k.ID, unix: request.unix}
	out.mac = sum(k, canonicalDigest(reqSig, status, digest))
	return out.String()
}

// VerifyDigest checks a value that SignDigest gave. Errors as of VerifyResponse.
func VerifyDigest(value, reqSig string, status int, digest [sha256.Size]byte, keys []Key) (Key, error) {
	if len(keys) == 0 {
		return Key{}, ErrNoKeys
	}
	got, err := parseHeader(value)
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
	return check(got, keys, canonicalDigest(reqSig, status, digest))
}

func canonicalDigest(reqSig string, status int, digest [sha256.Size]byte) string {
	return fmt.Sprintf("routerfleet answer v1\n%s\n%03d\n%s", reqSig, status, hex.EncodeToString(digest[:]))
}
