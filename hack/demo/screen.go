package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/term"
)

// quietPeriod is how often a passing status becomes a line of its own where lines cannot be overwritten.
const quietPeriod = 10 * time.Second

// screen shows what is going on. On a terminal a status line stands below everything else and is
// overwritten; elsewhere it is printed now and then. It is safe for concurrent use.
type screen struct {
	mu       sync.Mutex // guards all below
	out      io.Writer
	terminal bool
	width    func() int
	shown    bool      // a status line is on the terminal
	status   string    // the last status
	printed  time.Time // when that was printed where there is no terminal
	now      func() time.Time
}

func newScreen(out *os.File) *screen {
	s := &screen{out: out, terminal: term.IsTerminal(int(out.Fd())), now: time.Now}
	s.width = func() int {
		width, _, err := term.GetSize(int(out.Fd()))
		if err != nil || width < 20 {
			return 80
		}
		return width
	}
	return s
}

// line prints text for good.
func (s *screen) line(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clearLocked()
	fmt.Fprintf(s.out, format+"\n", args...)
}

// update shows what is going on this moment.
func (s *screen) update(format string, args ...any) {
	text := printable(fmt.Sprintf(format, args...))
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.terminal {
		if room := s.width() - 1; len([]rune(text)) > room {
			text = string([]rune(text)[:room])
		}
		if !s.shown || text != s.status {
			fmt.Fprintf(s.out, "\r\x1b[K%s", text)
		}
		s.shown, s.status = true, text
		return
	}
	if text != s.status && s.now().Sub(s.printed) >= quietPeriod {
		fmt.Fprintln(s.out, text)
		s.status, s.printed = text, s.now()
	}
}

// clear takes the status line away.
func (s *screen) clear() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clearLocked()
}

func (s *screen) clearLocked() {
	if s.shown {
		fmt.Fprint(s.out, "\r\x1b[K")
		s.shown = false
	}
	s.printed = s.now()
}

// printable drops what would move the cursor: programs we run may draw on their own.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, text)
}

// bar is a progress bar of the given width in characters.
func bar(done, total, width int) string {
	if total <= 0 {
		return strings.Repeat("-", width)
	}
	full := min(max(done, 0)*width/total, width)
	return strings.Repeat("#", full) + strings.Repeat("-", width-full)
}
