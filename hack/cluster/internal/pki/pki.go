// Package pki makes the certificates, keys and kubeconfigs of a local cluster.
//
// Everything is made afresh by every `up` and removed with the state folder, so
// nothing is ever renewed or revoked.
package pki

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"time"
)

const (
	// validity is longer than any local cluster lives.
	validity = 90 * 24 * time.Hour
	// skew tolerates a clock that is set back while the cluster runs.
	skew = time.Hour
	// serialBits is the size of a random serial number; RFC 5280 allows 159.
	serialBits = 128
)

// Subject is what a certificate says about its holder. Common name and
// organisations are the user and the groups that Kubernetes sees.
type Subject struct {
	CommonName    string
	Organizations []string
	Hosts         []string // names and addresses it may serve as
}

// Pair is a certificate, or only a key, in memory and as PEM.
type Pair struct {
	Cert    *x509.Certificate
	Key     *ecdsa.PrivateKey
	CertPEM []byte
	KeyPEM  []byte
}

// NewAuthority makes a self-signed certificate authority.
func NewAuthority(name string, now time.Time) (*Pair, error) {
	template := newTemplate(Subject{CommonName: name}, now)
	template.IsCA = true
	template.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature
	return sign(template, nil)
}

// Issue makes a certificate for servers and clients, signed by the authority.
func (ca *Pair) Issue(s Subject, now time.Time) (*Pair, error) {
	template := newTemplate(s, now)
	template.KeyUsage = x509.KeyUsageDigitalSignature
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	return sign(template, ca)
}

func newTemplate(s Subject, now time.Time) *x509.Certificate {
	t := &x509.Certificate{
		Subject:               pkix.Name{CommonName: s.CommonName, Organization: s.Organizations},
		NotBefore:             now.Add(-skew),
		NotAfter:              now.Add(validity),
		BasicConstraintsValid: true,
	}
	for _, h := range s.Hosts {
		if ip := net.ParseIP(h); ip != nil {
			t.IPAddresses = append(t.IPAddresses, ip)
		} else {
			t.DNSNames = append(t.DNSNames, h)
		}
	}
	return t
}

// sign completes the template with a new key; without an authority the
// certificate signs itself.
func sign(template *x509.Certificate, ca *Pair) (*Pair, error) {
	p, err := newKey()
	if err != nil {
		return nil, fmt.Errorf("make a key for %q: %w", template.Subject.CommonName, err)
	}
	template.SerialNumber, err = rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), serialBits))
	if err != nil {
		return nil, fmt.Errorf("draw a serial number for %q: %w", template.Subject.CommonName, err)
	}
	parent, signer := template, p.Key
	if ca != nil {
		parent, signer = ca.Cert, ca.Key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, p.Key.Public(), signer)
	if err != nil {
		return nil, fmt.Errorf("sign the certificate of %q: %w", template.Subject.CommonName, err)
	}
	if p.Cert, err = x509.ParseCertificate(der); err != nil {
		return nil, fmt.Errorf("read back the certificate of %q: %w", template.Subject.CommonName, err)
	}
	p.CertPEM = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	return p, nil
}

func newKey() (*Pair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, err
	}
	return &Pair{Key: key, KeyPEM: pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der})}, nil
}

// publicKeyPEM is the form in which the API server reads the keys that verify
// service account tokens.
func (ca *Pair) publicKeyPEM() ([]byte, error) {
	der, err := x509.MarshalPKIXPublicKey(ca.Key.Public())
	if err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}), nil
}
