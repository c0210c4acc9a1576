package signed

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
)

// Names of the tokens in a fleet's Secret, and of the files it is mounted as.
const (
	FilePeer          = "peer"
	FilePeerPrevious  = "peer.previous"
	FileAdmin         = "admin"
	FileAdminPrevious = "admin.previous"
	FileView          = "view"
)

var tokenFiles = []string{FilePeer, FilePeerPrevious, FileAdmin, FileAdminPrevious, FileView}

// Tokens are the tokens of one fleet at one time. The zero value has none and lets nobody in.
type Tokens struct {
	peers   []Key
	bearers []Bearer
}

// ParseTokens reads a Secret's data, or the files of its mount. White space around a token does not count, an
// empty one is absent, other keys are ignored. A token that is too long or too short is an error, and so is data
// without a peer token: a fleet without one could not sign.
func ParseTokens(data map[string][]byte) (*Tokens, error) {
	token := map[string][]byte{}
	var errs []error
	for _, name := range tokenFiles {
		value := bytes.TrimSpace(data[name])
		switch {
		case len(value) == 0:
		case len(value) < minTokenBytes || len(value) > maxTokenBytes:
			errs = append(errs, fmt.Errorf("token %s has %d bytes: %d to %d are allowed", name, len(value), minTokenBytes, maxTokenBytes))
		default:
			token[name] = bytes.Clone(value)
		}
	}
	if token[FilePeer] == nil {
		errs = append(errs, fmt.Errorf("there is no token %s among %v", FilePeer, slices.Sorted(maps.Keys(data))))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	t := &Tokens{}
	for _, name := range []string{FilePeer, FilePeerPrevious} {
		if token[name] != nil {
			t.peers = append(t.peers, NewKey(token[name]))
		}
	}
	for _, b := range []Bearer{
		{RoleAdmin, token[FileAdmin]}, {RoleAdmin, token[FileAdminPrevious]}, {RoleView, token[FileView]},
	} {
		if b.Token != nil {
			t.bearers = append(t.bearers, b)
		}
	}
	return t, nil
}

// Keys returns the peer keys, the signing one first. It is a Keyring.
func (t *Tokens) Keys() []Key { return t.peers }

// Bearers returns the tokens that open reading.
func (t *Tokens) Bearers() []Bearer { return t.bearers }

// Generation is the id of the signing key, empty without one.
func (t *Tokens) Generation() string {
	if len(t.peers) == 0 {
		return ""
	}
	return t.peers[0].ID
}
