// Package durable drives sagas that a server remembers. Each is a row in a [store.Store] and a log of what has happened to
// it. A process that takes a turn acquires the row, runs the turn, and commits the new state together with the events of the
// turn in one write. Everything that waits for a saga, lists sagas or shows one is a reader of rows and logs.
//
// Make a [Core] with [New] and have [Core.Work] run. Dialects use it as a [tasks.Viewer], on any replica.
//
// # How a saga is driven
//
// A row is at rest, with a time at which it is due, or held by one process until its lease is over ([hold]). A worker takes
// rows that are due; a client's answer has the process that it has reached take the row at once. What a client writes while
// another process holds the row is an input: an item of the log that the holder folds in before it writes again, as its next
// write then meets a conflict. So nothing is overwritten, and nothing rests with an input unread.
//
// If a process dies, another one takes the row when the lease is over. It is then in doubt what was done since the
// last commit, so the turn is taken again from there, and its effects with the keys that they had.
//
// # Where to read
//
// state.go and event.go say what is kept, seal.go how it is sealed, row.go how rows are read and written. hold.go is what a
// process knows of a saga that it drives, and commit.go how it writes that, drive.go decides what comes next, step.go takes
// turns, undo.go undoes them and end.go ends sagas. start.go and call.go begin tasks and calls, and signal.go is what clients
// do to them. client*.go are the sagas that clients drive. view.go and follow.go show sagas, and operate.go shows them to
// operators. worker.go finds what is due, slots.go shares the workers among callers, patience.go waits for a store that
// fails, shared.go has what is no saga, deliver.go and heard.go the events that sagas wait for, people.go the questions to
// other people, and notes.go what tools tell while they work.
package durable

import (
	"cmp"
	"errors"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/internal/store"
	"github.com/mcpsaga/mcpsaga/internal/tasks"
	"github.com/mcpsaga/mcpsaga/internal/turns"
)

// Config configures a [Core]. Turns and Store are required.
type Config struct {
	// Turns takes the turns.
	Turns *turns.Runner
	// Store has the rows.
	Store store.Store
	// Workers is how many sagas run at once in this process while [Core.Work] runs. Default 16. If it is negative, nothing
	// that is due is taken: this process drives nothing but the calls that it has begun, or whose answers have come here.
	Workers int
	// PerPrincipal is how many of them may be one principal's. Default: half of the workers, and at least one.
	PerPrincipal int
	// PerTool is how many of them may be of a tool, by its name; those that it has not have no limit of their own.
	PerTool map[string]int
	// Limit is how many tasks a principal may have under way. Default 1000; negative is any number. MaxSagas is the same for
	// calls, for sagas that clients drive, and for documents. Default 100 000.
	Limit, MaxSagas int
	// Lease is how long a saga is a process's unless that shows that it is alive. Default 10 seconds.
	Lease time.Duration
	// Attempts is how many processes in a row may go down with a saga before it is given up. Default 5.
	Attempts int
	// Poll is how often what is waited for is looked at although nothing was heard of it. Default: 10 seconds.
	Poll time.Duration
}

// Core drives sagas. It is safe for concurrent use.
type Core struct {
	Config
	Operator
	hub    hub
	worker worker
	clock  clock
	unread rate.Sometimes // logs sagas that cannot be read

	identity atomic.Pointer[store.ID] // of the store, once it is known
}

var _ tasks.Viewer = (*Core)(nil)

// New returns a core. It starts nothing.
func New(c Config) (*Core, error) {
	if c.Turns == nil || c.Store == nil {
		return nil, errors.New("durable: turns and a store are needed")
	}
	c.Workers = cmp.Or(c.Workers, 16)
	if c.PerPrincipal <= 0 {
		c.PerPrincipal = max(1, c.Workers/2)
	}
	c.Limit = cmp.Or(c.Limit, 1000)
	c.MaxSagas = cmp.Or(c.MaxSagas, 100_000)
	c.Lease = cmp.Or(c.Lease, 10*time.Second)
	c.Attempts = cmp.Or(c.Attempts, 5)
	c.Poll = cmp.Or(c.Poll, 10*time.Second)
	core := &Core{Config: c, clock: clock{process: c.Turns.Now}, unread: rate.Sometimes{Interval: 10 * time.Minute}}
	core.rows.store, core.rows.keys, core.rows.audience = c.Store, c.Turns.Codec.Keyset, c.Turns.Codec.Options().Audience
	core.worker.init(core)
	c.Turns.Remember(core)
	return core, nil
}

// tools are those whose sagas can be driven here, or undone, by their newest revision.
func (c *Core) tools() (list []store.Tool) {
	for _, kind := range [...]engine.Kind{engine.KindTool, engine.KindPrompt, engine.KindResource} {
		for _, newest := range c.Turns.Registry.Of(kind) {
			list = append(list, store.Tool{Name: newest.Target, Revision: newest.Revision})
		}
	}
	return list
}

// clock is the store's time, for rows that are not read: what it was when it was heard last, and how
// long ago that is. Until then it is this process's.
type clock struct {
	process func() time.Time
	heard   atomic.Pointer[struct{ then, own time.Time }]
}

func (c *clock) hear(now time.Time) { c.heard.Store(&struct{ then, own time.Time }{now, time.Now()}) }

func (c *clock) now() time.Time {
	now := c.process()
	if h := c.heard.Load(); h != nil {
		now = h.then.Add(time.Since(h.own))
	}
	return now.UTC().Truncate(time.Microsecond)
}
