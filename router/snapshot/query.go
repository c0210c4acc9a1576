package snapshot

import (
	"errors"
	"fmt"
	"math"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// Names of the query's parameters. ranks may come many times, each "<rank>@<pod UID, or URL where there is none>".
const (
	paramMaxAge  = "max_age_ms"
	paramCursors = "cursors_only"
	paramRanks   = "ranks"
)

// query is what a request asks for.
type query struct {
	format      int // 0 if nothing we have is accepted
	cursorsOnly bool
	maxAge      time.Duration
	ranks       asked // nil means all
	gzip        bool
}

var errNotAcceptable = errors.New("snapshot: neither application/json nor " + MediaType + " is accepted")

func parseQuery(r *http.Request) (q query, err error) {
	values, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return q, fmt.Errorf("the query cannot be read: %w", err)
	}
	q.format = acceptedFormat(r.Header.Values("Accept"))
	q.gzip = acceptsGzip(r.Header.Values("Accept-Encoding"))
	if values.Has(paramCursors) {
		switch v := values.Get(paramCursors); v {
		case "true", "false":
			q.cursorsOnly = v == "true"
		default:
			return q, fmt.Errorf("%s is %q, not true or false", paramCursors, v)
		}
	}
	q.maxAge = defaultMaxAge
	if values.Has(paramMaxAge) {
		ms, err := strconv.ParseUint(values.Get(paramMaxAge), 10, 64)
		if err != nil {
			return q, fmt.Errorf("%s is %q, not a number of milliseconds", paramMaxAge, values.Get(paramMaxAge))
		}
		q.maxAge = time.Duration(min(ms, math.MaxInt64/uint64(time.Millisecond))) * time.Millisecond
	}
	q.ranks, err = parseRanks(values[paramRanks])
	return q, err
}

func parseRanks(values []string) (asked, error) {
	if len(values) == 0 {
		return nil, nil
	}
	if len(values) > maxAskedRanks {
		return nil, fmt.Errorf("%s names %d ranks, more than %d: ask for all", paramRanks, len(values), maxAskedRanks)
	}
	a := asked{}
	for _, v := range values {
		number, worker, ok := strings.Cut(v, "@")
		dp, err := strconv.ParseInt(number, 10, 32)
		if !ok || err != nil || worker == "" {
			return nil, fmt.Errorf("%s has %q, not <rank>@<pod UID or URL>", paramRanks, v)
		}
		if a[worker] == nil {
			a[worker] = map[int32]bool{}
		}
		a[worker][int32(dp)] = true
	}
	return a, nil
}

// asked is a set of ranks as a request names them: by a worker's pod UID or its URL.
type asked map[string]map[int32]bool

func (a asked) wants(w Worker, dp int32) bool {
	return w.PodUID != "" && a[w.PodUID][dp] || w.URL != "" && a[w.URL][dp]
}

// acceptedFormat gives the format to answer in: 2 if it is named, else 1 unless that is refused, 0 for neither.
func acceptedFormat(accept []string) int {
	if len(accept) == 0 {
		return format1
	}
	format := 0
	for _, field := range accept {
		for part := range strings.SplitSeq(field, ",") {
			kind, params, err := mime.ParseMediaType(strings.TrimSpace(part))
			if err != nil || zeroWeight(params["q"]) {
				continue
			}
			switch kind {
			case MediaType:
				if f := params["format"]; f == "" || f == strconv.Itoa(format2) {
					return format2
				}
			case "application/json", "application/*", "*/*":
				format = format1
			}
		}
	}
	return format
}

// acceptsGzip tells whether the coding is named and not refused. Weights are not compared.
func acceptsGzip(values []string) bool {
	for _, field := range values {
		for part := range strings.SplitSeq(field, ",") {
			coding, params, _ := strings.Cut(part, ";")
			if !strings.EqualFold(strings.TrimSpace(coding), "gzip") {
				continue
			}
			weight := ""
			for p := range strings.SplitSeq(params, ";") {
				if name, v, ok := strings.Cut(p, "="); ok && strings.EqualFold(strings.TrimSpace(name), "q") {
					weight = strings.TrimSpace(v)
				}
			}
			return !zeroWeight(weight)
		}
	}
	return false
}

// zeroWeight tells a weight that refuses.
func zeroWeight(q string) bool {
	v, err := strconv.ParseFloat(q, 64)
	return err == nil && v == 0
}
