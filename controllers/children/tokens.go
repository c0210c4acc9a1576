package children

import (
	"encoding/hex"
	"fmt"
	"io"

	"github.com/routerfleet/routerfleet/api/v1alpha1"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// No list and no watch: tokens are never cached.
// +kubebuilder:rbac:groups="",resources=secrets,verbs=get;create;update

// Keys of the tokens Secret. The previous tokens exist only while a rotation is
// under way.
const (
	// TokenPeer signs the calls between replicas and from the operator.
	TokenPeer = "peer"
	// TokenPeerPrevious is still accepted after a rotation of TokenPeer.
	TokenPeerPrevious = "peer.previous"
	// TokenAdmin is the bearer of people who may change the fleet.
	TokenAdmin = "admin"
	// TokenAdminPrevious is still accepted after a rotation of TokenAdmin.
	TokenAdminPrevious = "admin.previous"
	// TokenView is the bearer of people who may look.
	TokenView = "view"
	// HashSeed is the secret seed of block keys. It is never rotated: another
	// seed makes every key of every index a stranger.
	HashSeed = "hash-seed"
)

const (
	tokenBytes    = 32 // the size of an HMAC-SHA256 key
	hashSeedBytes = 8  // the seed of XXH3-64
)

// generated is an ordered list, so that a given reader gives the same Secret.
var generated = []struct {
	key   string
	bytes int
}{{TokenPeer, tokenBytes}, {TokenAdmin, tokenBytes}, {TokenView, tokenBytes}, {HashSeed, hashSeedBytes}}

// Tokens is the Secret with a fleet's tokens, to create if existing is nil and
// to update if changed. It fills in keys that are missing or empty and keeps all
// others. Values are hexadecimal; rand must be cryptographically secure.
func Tokens(f *v1alpha1.RouterFleet, existing *corev1.Secret, rand io.Reader) (secret *corev1.Secret, changed bool, err error) {
	secret = emptyTokens(f)
	if existing != nil {
		secret = existing.DeepCopy()
	}
	for _, g := range generated {
		if len(secret.Data[g.key]) > 0 {
			continue
		}
		value, err := randomHex(rand, g.bytes)
		if err != nil {
			return nil, false, fmt.Errorf("generate %s of Secret %s/%s: %w", g.key, f.Namespace, secret.Name, err)
		}
		if secret.Data == nil {
			secret.Data = map[string][]byte{}
		}
		secret.Data[g.key] = value
		changed = true
	}
	return secret, changed, nil
}

func emptyTokens(f *v1alpha1.RouterFleet) *corev1.Secret {
	return &corev1.Secret{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: metav1.ObjectMeta{
			Name:      TokensName(f.Name),
			Namespace: f.Namespace,
			Labels:    FleetLabels(f.Name),
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion:         v1alpha1.GroupVersion.String(),
				Kind:               v1alpha1.Kind.Kind,
				Name:               f.Name,
				UID:                f.UID,
				Controller:         ptr.To(true),
				BlockOwnerDeletion: ptr.To(true),
			}},
		},
		Type: corev1.SecretTypeOpaque,
	}
}

func randomHex(rand io.Reader, bytes int) ([]byte, error) {
	raw := make([]byte, bytes)
	if _, err := io.ReadFull(rand, raw); err != nil {
		return nil, fmt.Errorf("read %d random bytes: %w", bytes, err)
	}
	return hex.AppendEncode(nil, raw), nil
}
