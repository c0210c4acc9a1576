package workers

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"regexp"
	"strconv"
	"strings"
)

// StaticWorker is a worker named in the configuration.
type StaticWorker struct {
	ID  ID
	URL *url.URL
	// Labels are for the selectors of models; no discovery sees them.
	Labels map[string]string
}

var (
	staticID    = regexp.MustCompile(`^[a-z0-9.-]{1,253}$`)
	notStaticID = regexp.MustCompile(`[^a-z0-9.-]+`)
)

// ParseStatic reads one value of --worker: "URL" or "ID=URL". Without an id the worker is called after its host
// and port ("10.0.0.7-8000"), so that metrics and logs never carry the URL.
func ParseStatic(arg string) (StaticWorker, error) {
	id, rawURL := "", arg
	if before, after, ok := strings.Cut(arg, "="); ok && !strings.Contains(before, "/") {
		id, rawURL = before, after
		if !staticID.MatchString(id) {
			return StaticWorker{}, fmt.Errorf("worker %q: the id %q must match [a-z0-9.-]+", arg, id)
		}
	}
	u, err := parseBaseURL(rawURL)
	if err != nil {
		if isAddress(rawURL) {
			meant := strings.TrimSuffix(arg, rawURL) + "http://" + rawURL
			return StaticWorker{}, fmt.Errorf("worker %q: the scheme is missing: did you mean %s?", arg, meant)
		}
		return StaticWorker{}, fmt.Errorf("worker %q: %w", arg, err)
	}
	if id == "" {
		id = strings.Trim(notStaticID.ReplaceAllString(strings.ToLower(u.Host), "-"), "-")
	}
	return StaticWorker{ID: ID(id), URL: u}, nil
}

func (w StaticWorker) validate() error {
	if !staticID.MatchString(string(w.ID)) {
		return fmt.Errorf("static worker id %q must match [a-z0-9.-]+", w.ID)
	}
	if w.URL == nil {
		return fmt.Errorf("static worker %q has no URL", w.ID)
	}
	if err := checkBaseURL(w.URL); err != nil {
		return fmt.Errorf("static worker %q: %w", w.ID, err)
	}
	return nil
}

func parseBaseURL(rawURL string) (*url.URL, error) {
	u, err := url.Parse(rawURL)
	if err == nil {
		err = checkBaseURL(u)
	}
	return u, err
}

// isAddress is true for host:port without a scheme, which net/url reads as anything but that.
func isAddress(s string) bool {
	host, port, err := net.SplitHostPort(s)
	if err != nil || host == "" {
		return false
	}
	_, err = strconv.ParseUint(port, 10, 16)
	return err == nil
}

func checkBaseURL(u *url.URL) error {
	switch {
	case u.Scheme != "http" && u.Scheme != "https":
		return errors.New("the URL must begin with http:// or https://")
	case u.Hostname() == "":
		return errors.New("the URL names no host")
	case u.User != nil:
		return errors.New("the URL must not carry credentials: use --worker-api-key-file")
	case u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		return errors.New("the URL must not have a query or a fragment")
	}
	return nil
}
