//go:build unix

package hostile

import (
	"syscall"
	"time"
)

// CPUTime is the time of the processor that this process has used.
func CPUTime() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u) // fails for bad arguments only
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
