package manager

import (
	"fmt"
	"io"
	"log/slog"

	"github.com/go-logr/logr"
)

// newLogger writes the log of the manager and of the libraries below it.
func newLogger(w io.Writer, level, format string) (logr.Logger, error) {
	var l slog.Level
	if err := l.UnmarshalText([]byte(level)); err != nil {
		return logr.Logger{}, fmt.Errorf("--log-level: %w", err)
	}
	options := &slog.HandlerOptions{Level: l}
	switch format {
	case "json":
		return logr.FromSlogHandler(slog.NewJSONHandler(w, options)), nil
	case "text":
		return logr.FromSlogHandler(slog.NewTextHandler(w, options)), nil
	}
	return logr.Logger{}, fmt.Errorf("--log-format: %q is neither json nor text", format)
}
