package engine

import (
	"runtime"
	"slices"
	"sync/atomic"
)

// Go has no name by which a goroutine could be known again. But what runs is on its stack: a turn's
// code is called in one of several places, so that turns which run at the same time mostly differ,
// and goroutines that the code has started have none of these places on theirs.

// ways are the places in by where it calls code.
var ways = func() (at [16]uintptr) {
	for way := range at {
		by(way, func() { runtime.Callers(2, at[way:way+1]) })
	}
	return at
}()

// called counts the turns whose code was called.
var called atomic.Uint32

// call calls the turn's code.
func (tc *Turn) call(code func()) {
	tc.guard.way = int(called.Add(1)) % len(ways)
	by(tc.guard.way, code)
}

// runsBy reports whether the calling goroutine runs code that was called in one of the places.
func runsBy(ways []uintptr) bool {
	var pcs [12]uintptr // as far as most tools go
	for skip := 3; ; skip += len(pcs) {
		n := runtime.Callers(skip, pcs[:])
		for _, way := range ways {
			if slices.Contains(pcs[:n], way) {
				return true
			}
		}
		if n < len(pcs) {
			return false
		}
	}
}

// by calls code in one of several places.
//
//go:noinline
func by(way int, code func()) {
	switch way {
	case 0:
		code()
	case 1:
		code()
	case 2:
		code()
	case 3:
		code()
	case 4:
		code()
	case 5:
		code()
	case 6:
		code()
	case 7:
		code()
	case 8:
		code()
	case 9:
		code()
	case 10:
		code()
	case 11:
		code()
	case 12:
		code()
	case 13:
		code()
	case 14:
		code()
	default:
		code()
	}
}
