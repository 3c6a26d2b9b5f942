package client

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"time"
)

// Defaults of [Options].
const (
	DefaultMaxRounds = 20
	DefaultTimeout   = 5 * time.Minute
	DefaultRetries   = 6
	DefaultRetryFor  = time.Minute
)

// Options adjust a [Client]. The zero value is ready to use.
type Options struct {
	// Name and Version introduce the client in [Client.Initialize].
	Name, Version string
	// MaxRounds is how often a tool may suspend one Call or Resume before it stops
	// with a [*RoundLimitError]. 0 means DefaultMaxRounds.
	MaxRounds int
	// Timeout is how long one turn may take on the server, or a whole list of tools,
	// prompts or resources. It does not limit how long handlers take. 0 means
	// DefaultTimeout.
	Timeout time.Duration
	// Retries is how often a turn whose connection was lost is sent again. 0 means
	// DefaultRetries for a first turn or a list, and for a later turn as often as
	// RetryFor allows: somebody has answered, and waits. A negative number means never.
	Retries int
	// RetryFor limits the time from the first attempt of a turn to its last. 0
	// means DefaultRetryFor.
	RetryFor time.Duration
	// OnRetry, if not nil, is told why a turn is about to be sent again.
	OnRetry func(error)
	// Limits bound what a server can make the client hold and show.
	Limits Limits
}

// Client calls the tools of one server. It is safe for concurrent use. Close it.
type Client struct {
	transport Transport
	options   Options
	// pause is how long the first pause before a turn is sent again is, about.
	pause time.Duration
}

// New returns a client for the server that transport leads to. Nothing is sent
// before the first call.
func New(transport Transport, options Options) *Client {
	if options.MaxRounds == 0 {
		options.MaxRounds = DefaultMaxRounds
	}
	if options.Timeout == 0 {
		options.Timeout = DefaultTimeout
	}
	if options.RetryFor == 0 {
		options.RetryFor = DefaultRetryFor
	}
	options.Limits = options.Limits.withDefaults()
	return &Client{transport: transport, options: options, pause: 200 * time.Millisecond}
}

// dialect returns the protocol of that name, and false if it is not known here.
func (c *Client) dialect(name string) (dialect, bool) {
	switch name {
	case (sagaDialect{}).name():
		return sagaDialect{}, true
	case (statelessDialect{}).name():
		return statelessDialect{c.options}, true
	}
	return nil, false
}

// Close closes the transport. Calls under way fail.
func (c *Client) Close() error { return c.transport.Close() }

// Call calls a tool and answers its steps with handlers until it returns a
// result. Arguments are anything that encodes to a JSON object, or nil.
//
// A tool that failed by its own account is a result with IsError set. Errors are
// always an [*Interrupted]; its Err tells why, its Position where.
func (c *Client) Call(ctx context.Context, tool string, arguments any, handlers Handlers) (*Result, error) {
	position := Position{Version: PositionVersion, Dialect: sagaDialect{}.name(), Tool: tool}
	raw, err := encodeArguments(arguments)
	if err != nil {
		return nil, &Interrupted{Position: position, Err: err}
	}
	position.Arguments = raw
	return drive(ctx, c, position, handlers, parseResult)
}

// Resume goes on with the call of a tool from position, which may have been made by
// another process, and on another connection. See [Client.Call] for what it returns.
func (c *Client) Resume(ctx context.Context, position Position, handlers Handlers) (*Result, error) {
	return resume(ctx, c, position, position.Tool, handlers, parseResult)
}

// drive is Client.drive with a result of the kind that parse returns.
func drive[R any](ctx context.Context, c *Client, p Position, h Handlers, parse func(json.RawMessage, Limits) (*R, error)) (*R, error) {
	var result *R
	err := c.drive(ctx, p, h, func(raw json.RawMessage) (err error) {
		result, err = parse(raw, c.options.Limits)
		return err
	})
	return result, err
}

// resume goes on from a position, whose subject must be of the kind wanted: not empty.
func resume[R any](ctx context.Context, c *Client, p Position, subject string, h Handlers, parse func(json.RawMessage, Limits) (*R, error)) (*R, error) {
	if err := p.check(); err != nil {
		return nil, &Interrupted{Position: p, Err: err}
	}
	if subject == "" {
		return nil, &Interrupted{Position: p, Err: &PositionError{Reason: "it is of a " + p.Kind() + ": use the method for that"}}
	}
	return drive(ctx, c, p.snapshot(), h, parse)
}

func encodeArguments(arguments any) (json.RawMessage, error) {
	if arguments == nil {
		return nil, nil
	}
	raw, err := json.Marshal(arguments)
	if err != nil {
		return nil, fmt.Errorf("the arguments do not encode as JSON: %w", err)
	}
	if bytes.Equal(raw, []byte("null")) {
		return nil, nil
	}
	if !bytes.HasPrefix(raw, []byte("{")) {
		return nil, fmt.Errorf("the arguments of a tool must be a JSON object, not %s", raw)
	}
	return raw, nil
}
