//go:build unix

// Package cputime says how long processors worked for this process.
package cputime

import (
	"syscall"
	"time"
)

// Used is the time of the processor that this process has used.
func Used() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u) // fails for bad arguments only
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
