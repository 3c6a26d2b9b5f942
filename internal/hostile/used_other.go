//go:build !unix

package hostile

import "time"

var began = time.Now()

// used is the time that has passed, which is more than what this process has used.
func used() time.Duration { return time.Since(began) }
