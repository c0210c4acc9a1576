package snapshot

import (
	"encoding/binary"
	"fmt"
	"math"
	"testing"

	"github.com/routerfleet/routerfleet/router/cursor"
)

// Behind the last number nothing can follow: a cursor there is believed in no form it may arrive in.
func TestACursorAtTheMaximumProvesNothing(t *testing.T) {
	for _, seq := range []int64{math.MaxInt64, math.MaxInt64 - 1} {
		w := wireRow{Row: Row{Worker: Worker{PodUID: "u"}, Cursor: cursor.Cursor{Seq: seq, Proof: cursor.Proven}}}
		b := appendRow(nil, &w)
		_, n := binary.Uvarint(b)
		got, ok := decodeRow(b[n:])
		table, err := decodeTable2(fmt.Appendf(nil, `{"format":2,"ranks":[{"podUID":"u","seq":%d,"proof":"proven"}]}`, seq))
		if !ok || err != nil || len(table.Rows) != 1 {
			t.Fatalf("%d: %v, %v, %+v", seq, ok, err, table)
		}
		want := map[bool]cursor.Proof{true: cursor.Untrusted, false: cursor.Proven}[seq == math.MaxInt64]
		if got.Cursor.Proof != want || table.Rows[0].Cursor.Proof != want {
			t.Errorf("%d: a body's row is %v, a table's %v, want %v", seq, got.Cursor.Proof, table.Rows[0].Cursor.Proof, want)
		}
	}
}
