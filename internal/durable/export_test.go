package durable

import (
	"context"
	"iter"
	"time"

	"github.com/mcpsaga/mcpsaga/codec"
	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/internal/store"
	"github.com/mcpsaga/mcpsaga/internal/tasks"
	"github.com/mcpsaga/mcpsaga/steps"
)

// PageSize is how many records are read at a time.
const PageSize = pageSize

// Row is what a store has of a saga, for tests that see what servers write.
type Row = row

// OpenRow opens a record.
func OpenRow(keys *codec.Keyset, audience string, record *store.Record) (*Row, error) {
	s := rows{sealer: sealer{keys: func() *codec.Keyset { return keys }, audience: audience}}
	return s.openRow(record)
}

// SagaID is the ID of the row of a saga that its client drives.
func SagaID(c *Core, principal string, saga [16]byte) store.ID { return c.rows.sagaID(principal, saga) }

// Watch yields a task each time that it has changed after revision after.
func (c *Core) Watch(ctx context.Context, principal, id string, after uint64) iter.Seq2[*tasks.Task, error] {
	return func(yield func(*tasks.Task, error) bool) {
		for n, err := range c.Follow(ctx, principal, id, tasks.NoEvents, nil) {
			if err == nil && (n.Task == nil || n.Task.Rev <= after) {
				continue
			}
			if !yield(n.Task, err) {
				return
			}
		}
	}
}

// Noticed returns the notices after a number.
func (c *Core) Noticed(ctx context.Context, after uint64) (list []Notice, newest uint64, lost bool, err error) {
	return c.noticed(ctx, after)
}

// Extend has a task kept until at least then: an input that clients do not see.
func (c *Core) Extend(ctx context.Context, principal, id string, until time.Time) error {
	_, err := c.input(ctx, func() (*row, error) { return c.find(ctx, principal, id) }, func(r *row) (*event, bool, error) {
		if !until.After(r.Times.Keep) {
			return nil, false, nil
		}
		return &event{kind: kindKeep, body: body{Until: until.UTC()}}, false, nil
	})
	return err
}

// Asks has others be asked as a saga does that its client drives.
func (c *Core) Asks(ctx context.Context, p *engine.Program, place engine.Place, question string, asked []byte, until time.Time) error {
	_, err := c.registerOne(ctx, "p", nil, p, &tasks.Awaited{ID: question, Event: c.atOthers(place), Until: until, Question: question, Asked: asked, Place: &place})
	return err
}

// ErrEnding is what who delivers an event learns while its saga is being ended: to deliver again.
var ErrEnding = errEnding

// Logged is an entry of a task's log that tells what the task has told, asked or come to.
type Logged struct {
	N                  uint64
	Kind               string
	Question           *steps.Step
	Progress, Log, End bool
	Status             tasks.Status
}

// Logged returns such entries after a number.
func (c *Core) Logged(ctx context.Context, principal, id string, after uint64) (list []Logged, err error) {
	r, err := c.find(ctx, principal, id)
	if err != nil {
		return nil, err
	}
	for e, err := range c.rows.events(ctx, r.ID, after) {
		if err != nil {
			return nil, c.report(ctx, "task", err)
		}
		if traits[e.kind]&told != 0 {
			list = append(list, Logged{e.n, string(e.kind), e.Question, e.Progress != nil, e.Log != nil, e.kind == kindEnd, e.Ending.status()})
		}
	}
	return list, nil
}
