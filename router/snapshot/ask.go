package snapshot

import (
	"net/url"
	"strconv"
	"strings"
)

// snapshotURL asks for a body. A reader to whom any age will do leaves the parameter out.
func snapshotURL(p Peer, w Want) string {
	q := url.Values{}
	if w.MaxAge >= 0 {
		q.Set(paramMaxAge, strconv.FormatInt(w.MaxAge.Milliseconds(), 10))
	}
	if w.Ranks != nil && len(w.Ranks) <= maxAskedRanks && !p.Upstream {
		for _, l := range newLocals(w).list {
			q.Add(paramRanks, strconv.Itoa(int(l.rank.Rank.DP))+"@"+l.rank.Worker.Name())
		}
	}
	return withQuery(p, q)
}

func cursorsURL(p Peer) string { return withQuery(p, url.Values{paramCursors: {"true"}}) }

func withQuery(p Peer, q url.Values) string {
	u := strings.TrimSuffix(p.URL, "/") + Path
	if len(q) > 0 {
		u += "?" + q.Encode()
	}
	return u
}
