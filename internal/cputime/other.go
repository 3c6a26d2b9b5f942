//go:build !unix

package cputime

import "time"

var began = time.Now()

// Used is the time that has passed, which is more than what this process has used.
func Used() time.Duration { return time.Since(began) }
