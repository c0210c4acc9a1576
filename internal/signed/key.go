package signed

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
)

// Key is one token with the id that names it on the wire. The id says nothing about the secret beyond 32 bits of
// its hash, which no guess can use against a token of full strength.
type Key struct {
	ID     string
	Secret []byte
}

// idLength is the length of a key id in hex digits.
const idLength = 8

// NewKey returns the key of a token.
func NewKey(secret []byte) Key {
	sum := sha256.Sum256(secret)
	return Key{ID: hex.EncodeToString(sum[:])[:idLength], Secret: secret}
}

// Keyring returns the valid keys: the first signs, all are accepted. It is called for every request and must be
// safe for concurrent use. No keys means that nothing internal is answered.
type Keyring func() []Key

// Role is what a caller may be.
type Role string

// Roles. A peer signs; admin and view present bearers.
const (
	RolePeer  Role = "peer"
	RoleAdmin Role = "admin"
	RoleView  Role = "view"
)

// Bearer is a token that opens GET requests.
type Bearer struct {
	Role  Role
	Token []byte
}

// bearerRole returns the role of a presented token. Every candidate is compared, over hashes of equal length, so
// the time taken tells neither which matched nor how much of it.
func bearerRole(bearers []Bearer, presented string) (Role, bool) {
	got := sha256.Sum256([]byte(presented))
	role, found := Role(""), false
	for _, b := range bearers {
		want := sha256.Sum256(b.Token)
		if subtle.ConstantTimeCompare(got[:], want[:]) == 1 && len(b.Token) > 0 && !found {
			role, found = b.Role, true
		}
	}
	return role, found
}
