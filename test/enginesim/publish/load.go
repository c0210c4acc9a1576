package publish

import "github.com/routerfleet/routerfleet/test/enginesim"

// loadMessage is SGLang's load gauge of one rank: no event and nothing to replay,
// the last value counts.
func loadMessage(seq int64, state enginesim.RankState, pageSize int) [][]byte {
	w := appendText(appendArray(nil, 6), "LoadStat")
	for _, n := range []int{
		state.Running, state.Queued,
		(state.Blocks.Pinned + state.Blocks.Private) * pageSize, state.Blocks.Total * pageSize,
		state.Rank,
	} {
		w = appendInt(w, int64(n))
	}
	return [][]byte{[]byte(DefaultLoadTopic), seqFrame(seq), w}
}
