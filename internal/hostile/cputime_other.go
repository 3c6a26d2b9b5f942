//go:build !unix

package hostile

import "time"

var began = time.Now()

// CPUTime is the time that has passed, which is more than what this process has used.
func CPUTime() time.Duration { return time.Since(began) }
