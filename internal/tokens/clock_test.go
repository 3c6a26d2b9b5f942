package tokens_test

import "time"

var started = time.Now()

// now is a cheap monotonic clock in nanoseconds.
func now() int64 { return int64(time.Since(started)) }
