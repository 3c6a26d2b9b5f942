package client

import (
	"cmp"
	"time"
)

const (
	defaultMaxRounds = 20
	defaultTimeout   = 5 * time.Minute
	defaultRetries   = 6
	defaultRetryFor  = time.Minute

	defaultRetryPause = 200 * time.Millisecond
)

// Options adjust a [Client]. The zero value is ready to use.
type Options struct {
	// Name and Version introduce the client in [Client.Initialize].
	Name, Version string
	// MaxRounds is how often a tool may suspend one Call or Resume before it stops
	// with a [*LimitError]. 0 means 20.
	MaxRounds int
	// Timeout is how long one turn may take on the server, or a whole list of tools,
	// prompts or resources. It does not limit how long handlers take. 0 means
	// 5 minutes.
	Timeout time.Duration
	// Retries is how often a turn whose connection was lost is sent again. 0 means
	// 6 for a first turn or a list, and for a later turn as often as
	// RetryFor allows: somebody has answered, and waits. A negative number means never.
	Retries int
	// RetryFor limits the time from the first attempt of a turn to its last. 0
	// means one minute.
	RetryFor time.Duration
	// RetryPause is about how long the first pause before a turn is sent again is; the
	// later ones grow. 0 means 200 milliseconds.
	RetryPause time.Duration
	// OnRetry, if not nil, is told why a turn is about to be sent again.
	OnRetry func(error)
	// Limits bound what a server can make the client hold and show.
	Limits Limits
}

// Client calls the tools of one server. It is safe for concurrent use. Close it.
type Client struct {
	transport Transport
	options   Options
	// dialects are the protocols spoken here. Tools are called over one, prompts and
	// resources are got over the other.
	dialects        []dialect
	tools, features dialect
}

// New returns a client for the server that transport leads to. Nothing is sent
// before the first call.
func New(transport Transport, options Options) *Client {
	options.MaxRounds = cmp.Or(options.MaxRounds, defaultMaxRounds)
	options.Timeout = cmp.Or(options.Timeout, defaultTimeout)
	options.RetryFor = cmp.Or(options.RetryFor, defaultRetryFor)
	options.RetryPause = cmp.Or(options.RetryPause, defaultRetryPause)
	options.Limits = options.Limits.withDefaults()
	c := &Client{transport: transport, options: options, tools: sagaDialect{}, features: statelessDialect{options}}
	c.dialects = []dialect{c.tools, c.features}
	return c
}

// Close closes the transport. Calls under way fail.
func (c *Client) Close() error { return c.transport.Close() }
