package handshake

import (
	"context"
	"time"

	"github.com/mcpsaga/mcpsaga/server/internal/dialect"
)

// ends reports whether the connection is to end, and tells the client when to come back.
func (c *carrier) ends() bool {
	select {
	case <-c.gone:
		if c.retry != 0 {
			_ = c.out.Retry(c.retry) // the client may have gone as well
		}
		return true
	default:
		return false
	}
}

// pause waits until there may be something to send. It reports false if the connection has ended.
func (s *session) pause(ctx context.Context, c *carrier, alive *time.Ticker, more <-chan struct{}) bool {
	over, gone := s.ctx.Done(), ctx.Done()
	for {
		select {
		case <-more:
		case <-c.gone:
		case <-alive.C:
			if c.out.Alive() != nil {
				return false
			}
			s.look(ctx)
		case <-over:
			if over = nil; c.name != "" || !cutOff(s.ctx) {
				return false
			}
			continue
		case <-gone:
			if gone = nil; c.name != "" || !cutOff(ctx) {
				return false
			}
			continue
		}
		return true
	}
}

// cutOff reports whether ctx has ended because the server stops: a stream then ends with the answers of its calls.
func cutOff(ctx context.Context) bool { return context.Cause(ctx) == dialect.ErrStopping }
