package snapshot

import (
	"log/slog"
	"net/http"
	"time"

	"github.com/routerfleet/routerfleet/internal/signed"
)

// BuildsHeader tells on every answer how busy a teacher is: the builds and bodies under way.
const BuildsHeader = "X-RouterFleet-Builds"

// Options configure the producer. Zero fields take the documented default.
type Options struct {
	// Keys check requests and sign answers; without any nothing is answered. The handler does this itself, because a
	// snapshot is signed at its end: do not put it behind signed.Handler.
	Keys signed.Keyring
	// Bearers open cursors_only, and nothing else.
	Bearers func() []signed.Bearer
	// Now is the clock; nil means time.Now.
	Now func() time.Time
	// Log gets one line a build; nil means none.
	Log *slog.Logger
}

// NewHandler serves Path from src; a nil src answers 404: this replica has no index.
func NewHandler(src Source, o Options) http.Handler { return http.NotFoundHandler() }
