package prober

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/routerfleet/routerfleet/internal/signed"
	"github.com/routerfleet/routerfleet/router/bootstrap/status"
)

// path is the status endpoint on the admin listener.
const path = "/internal/bootstrap"

// errRefused says that the router knows none of the fleet's tokens, or not these.
var errRefused = errors.New("the router refuses the fleet's token: it may have been rotated, or the Secret is not mounted yet")

// read asks one router. The answer is signed, bounded in size and time, and names the pod it comes from.
func (p *Prober) read(ctx context.Context, j job) (*status.Status, error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	url := "http://" + j.target.Address + path
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", url, err)
	}
	// The transport is used directly: a client would follow redirects, and a pod may not send the operator elsewhere.
	transport := &signed.Transport{Base: p.base, Keys: func() []signed.Key { return j.keys }, MaxBody: status.MaxBytes}
	resp, err := transport.RoundTrip(req)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", url, err)
	}
	defer resp.Body.Close()
	switch resp.StatusCode {
	case http.StatusOK:
	case http.StatusUnauthorized, http.StatusForbidden:
		return nil, fmt.Errorf("read %s: status %d: %w", url, resp.StatusCode, errRefused)
	default:
		return nil, fmt.Errorf("read %s: status %d, want 200", url, resp.StatusCode)
	}
	s, err := status.Decode(resp.Body)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", url, err)
	}
	if want := string(j.target.Container.Pod); s.PodUID != want {
		return nil, fmt.Errorf("read %s: the answer is of pod %q, want %s: the address changed hands", url, s.PodUID, want)
	}
	return &s, nil
}
