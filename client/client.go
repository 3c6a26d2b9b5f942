package client

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"sync/atomic"
	"time"

	"github.com/cenkalti/backoff/v5"
)

// Options adjust a [Client]. The zero value is ready to use.
type Options struct {
	Name, Version string // introduce the client to servers
	// Protocol is the protocol to use: "saga", "2026-07-28", or an older revision of MCP,
	// such as "2025-11-25", which needs Sessions. Empty means that the server is asked
	// first, by server/discover: of these three, the first that it speaks.
	Protocol string
	// Sessions opens sessions with servers of older revisions. nil means that the client does
	// not speak with these. Package client/legacy has one; it is apart because it needs the
	// official Go SDK.
	Sessions func(context.Context, SessionConfig) (Session, error)
	// PreferTasks has tools called over MCP 2026-07-28 wherever the server has its tasks
	// extension, even if it speaks the saga proposal as well: what the server makes a task
	// runs while no client is there.
	PreferTasks bool
	// Extensions are declared to the server besides those of the client itself: by name, with their settings.
	Extensions map[string]any
	Lists      *Handlers // if not nil, servers list what they show a client that answers with these
	// MaxRounds is how often a tool may ask in one Call or Resume before it stops
	// with a [*LimitError]. 0 means 20. Turns that ask nothing do not count: a tool that
	// sleeps or waits for an event may take weeks, so bound the call by its context. The
	// client comes back when the server says, and at most ten times a second.
	MaxRounds int
	// Timeout is how long one turn may take on the server, or a whole list; how long
	// handlers take is not limited. 0 means 5 minutes.
	Timeout time.Duration
	// Retries is how often a turn whose connection was lost is sent again, if that does no
	// harm. 0 means 6 for a first turn or a list, and for a later turn as often as RetryFor
	// allows: a person has answered, and waits. A negative number means never.
	Retries    int
	RetryFor   time.Duration // from the first attempt of a turn to its last; 0 means one minute
	RetryPause time.Duration // before the second attempt, about; later pauses grow; 0 means 200 milliseconds
	OnRetry    func(error)   // if not nil, gets the reason why a turn is about to be sent again
	Limits     Limits        // bound what a server can make the client hold and show
}

// Client calls the tools of one server. It is safe for concurrent use. Close it.
type Client struct {
	transport Transport
	options   Options
	dialects  map[string]dialect
	choosing  chan struct{}     // held while chosen is read or decided
	chosen    *spoken           // nil until it is decided
	idle      chan *openSession // for the next request
	closed    context.Context   // ends when the client is closed
	end       context.CancelFunc
	known     atomic.Pointer[map[string]*listed] // the tools of the last list, by their names; nil before it
}

// New returns a client for the server that transport leads to. Nothing is sent
// before the first call.
func New(transport Transport, options Options) *Client {
	options.MaxRounds = cmp.Or(options.MaxRounds, 20)
	options.Timeout = cmp.Or(options.Timeout, 5*time.Minute)
	options.RetryFor = cmp.Or(options.RetryFor, time.Minute)
	options.RetryPause = cmp.Or(options.RetryPause, 200*time.Millisecond)
	options.Limits = options.Limits.withDefaults()
	dialects := map[string]dialect{sagaProposal: sagaDialect{}, stateless: statelessDialect{options}, inSessions: sessionDialect{}}
	closed, end := context.WithCancel(context.Background())
	return &Client{
		transport: transport, options: options, dialects: dialects, closed: closed, end: end,
		choosing: make(chan struct{}, 1), idle: make(chan *openSession, 1),
	}
}

// Close closes the transport. Calls under way fail, as do later ones.
func (c *Client) Close() error {
	c.end()
	return errors.Join(c.closeIdle(), c.transport.Close())
}

// send sends r, again if its connection was lost, or the server asks for that, and a second time does no harm.
func (c *Client) send(ctx context.Context, r request) (json.RawMessage, error) {
	if c.closed.Err() != nil {
		return nil, &TransportError{Err: errClosed, final: true}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(c.closed, func() { cancel(&TransportError{Sent: true, Err: errClosed, final: true}) })()
	var last error // without what the retry library wants around it
	attempt := func() (json.RawMessage, error) {
		var result json.RawMessage
		if result, last = c.attempt(ctx, r); last == nil {
			return result, nil
		}
		if r.keyed != "" && c.options.Retries >= 0 && mayRepeat(last, true) && !mayRepeat(last, false) {
			// It may have begun a saga. Only who knows the key again does not begin another.
			r.keyed, r.harmless = "", c.takesKeys(ctx, r.keyed)
		}
		if !mayRepeat(last, r.harmless) {
			return nil, backoff.Permanent(last)
		}
		if lost, ok := errors.AsType[*TransportError](last); ok && lost.RetryAfter > 0 {
			return nil, errors.Join(last, &backoff.RetryAfterError{Duration: lost.RetryAfter})
		}
		return nil, last
	}
	tries := uint(max(cmp.Or(c.options.Retries, 6), 0)) + 1
	if c.options.Retries == 0 && r.later {
		tries = 0 // only the time limits it
	}
	pause := backoff.NewExponentialBackOff()
	pause.InitialInterval = c.options.RetryPause
	pause.MaxInterval = 10 * time.Second
	result, err := backoff.Retry(ctx, attempt,
		backoff.WithBackOff(pause),
		backoff.WithMaxTries(tries),
		backoff.WithNotify(func(error, time.Duration) {
			if c.options.OnRetry != nil {
				c.options.OnRetry(last)
			}
		}),
		backoff.WithMaxElapsedTime(c.options.RetryFor))
	if err != nil && errors.Is(err, last) {
		err = last
	}
	return result, err
}

// mayRepeat reports whether a request that failed so may be sent again, harmless if the server may process it twice.
func mayRepeat(err error, harmless bool) bool {
	if lost, ok := errors.AsType[*TransportError](err); ok {
		return lost.repeatable(harmless)
	}
	refused, ok := errors.AsType[*Error](err)
	return ok && harmless && refused.Code == codeTryAgain // HTTP has a status for this as well
}

// attempt sends r once, within the time limit of a turn.
func (c *Client) attempt(ctx context.Context, r request) (json.RawMessage, error) {
	if cause := context.Cause(ctx); cause != nil {
		return nil, cause // before a process is started, or a session opened, for nothing
	}
	if r.session {
		return c.inSession(ctx, &r)
	}
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

type implementation struct {
	Name    string `json:"name"`
	Version string `json:"version"`
}

func implementationOf(o Options) implementation {
	return implementation{cmp.Or(o.Name, "mcpsaga"), cmp.Or(o.Version, "1")}
}
