package clock

import (
	"syscall"
	"testing"
	"time"
)

func TestWorkIsSpentAndNeverGivenBack(t *testing.T) {
	began := Spent()
	if began <= 0 {
		t.Fatalf("a running process has spent %v", began)
	}
	for last := began; last == began; {
		now := Spent()
		if now < last {
			t.Fatalf("%v spent after %v", now, last)
		}
		last = now
	}
}

// The kernel's accounts of user and system time are the dumb twin: what they say between two readings lies between them.
func TestSpentIsWhatTheKernelAccounts(t *testing.T) {
	const work = 300 * time.Millisecond
	const slack = work / 3 // accounts of threads that run may be late by a tick, 10 ms at most, each
	var u syscall.Rusage
	before := Spent()
	for before < work {
		before = Spent()
	}
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	after := Spent()
	if got := time.Duration(u.Utime.Nano() + u.Stime.Nano()); got < before-slack || got > after+slack {
		t.Errorf("the kernel accounts %v, the clock says %v to %v", got, before, after)
	}
}
