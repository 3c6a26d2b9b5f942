package client

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/cenkalti/backoff/v5"
)

// send sends r, and sends it again when its connection was lost, or the server asks
// for that, and a second time does no harm.
func (c *Client) send(ctx context.Context, r request) (json.RawMessage, error) {
	attempt := func() (json.RawMessage, error) {
		result, err := c.attempt(ctx, r)
		if err == nil {
			return result, nil
		}
		var lost *TransportError
		switch isLoss := errors.As(err, &lost); {
		case !isLoss && r.harmless && asksAgain(err): // HTTP has a status for this as well
		case !isLoss || !lost.repeatable(r.harmless):
			return nil, backoff.Permanent(err)
		case lost.RetryAfter > 0:
			return nil, errors.Join(err, &backoff.RetryAfterError{Duration: lost.RetryAfter})
		}
		return nil, err
	}
	pause := backoff.NewExponentialBackOff()
	pause.InitialInterval = c.options.RetryPause
	pause.MaxInterval = 10 * time.Second
	result, err := backoff.Retry(ctx, attempt,
		backoff.WithBackOff(pause),
		backoff.WithMaxTries(c.tries(r)),
		backoff.WithNotify(c.notify),
		backoff.WithMaxElapsedTime(c.options.RetryFor))
	return result, unwrapRetry(err)
}

// asksAgain reports whether the server's answer is to send the same request again.
func asksAgain(err error) bool {
	var refused *Error
	return errors.As(err, &refused) && refused.Code == codeTryAgain
}

// tries is how often r is sent at most; 0 if only the time limits that.
func (c *Client) tries(r request) uint {
	switch {
	case c.options.Retries != 0:
		return uint(max(c.options.Retries, 0)) + 1
	case r.later:
		return 0
	}
	return defaultRetries + 1
}

func (c *Client) notify(err error, _ time.Duration) {
	if c.options.OnRetry != nil {
		c.options.OnRetry(unwrapRetry(err))
	}
}

// attempt sends r once, within the time limit of a turn.
func (c *Client) attempt(ctx context.Context, r request) (json.RawMessage, error) {
	limited, cancel := context.WithTimeoutCause(ctx, c.options.Timeout, ErrTimeout)
	defer cancel()
	result, err := c.transport.exchange(limited, &r)
	if err == nil || limited.Err() == nil {
		return result, err
	}
	if cause := context.Cause(ctx); cause != nil {
		return nil, cause
	}
	// A server this slow is not helped by being asked again.
	return nil, &TransportError{Sent: true, Err: ErrTimeout, final: true}
}

// unwrapRetry takes off what send put around an error for the retry library.
func unwrapRetry(err error) error {
	var permanent *backoff.PermanentError
	if errors.As(err, &permanent) {
		return permanent.Err
	}
	var after *backoff.RetryAfterError
	var lost *TransportError
	if errors.As(err, &after) && errors.As(err, &lost) {
		return lost
	}
	return err
}
