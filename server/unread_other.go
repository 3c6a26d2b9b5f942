//go:build !unix

package server

import (
	"io"
	"time"
)

// watchUnread does nothing: an unread output is found by the next write.
func watchUnread(io.Writer, time.Duration, func(error)) (stop func()) { return func() {} }
