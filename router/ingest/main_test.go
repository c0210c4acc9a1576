package ingest

import (
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/routerfleet/routerfleet/router/kvevents"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// sec makes a stamp of seconds after some moment.
func sec(s float64) kvevents.Stamp { return kvevents.Stamp(1e18 + s*float64(time.Second)) }
