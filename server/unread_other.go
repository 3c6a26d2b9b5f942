//go:build !unix

package server

import (
	"io"
	"time"
)

// watchUnread does nothing: that nobody reads is found by the next write.
func watchUnread(io.Writer, time.Duration, func(error)) (stop func()) { return func() {} }
