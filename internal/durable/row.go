package durable

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/mcpsaga/mcpsaga/internal/store"
	"github.com/mcpsaga/mcpsaga/internal/tokens"
	"github.com/mcpsaga/mcpsaga/internal/turns"
)

// row is a saga as it was read or written: its record, opened, with the inputs that have come since
// its driver has written it last.
type row struct {
	store.Record
	state
	read time.Time // when Record.Now was the store's time, by this process's clock
	// written is the Head as of which it was written last: what came since is inputs.
	written uint64
}

// now is the store's time.
func (r *row) now() time.Time { return r.Now.Add(time.Since(r.read)) }

// summary is what lists show of a saga. It repeats what the state has.
type summary struct {
	Saga      tokens.ID     `cbor:"1,keyasint"`
	Name      string        `cbor:"2,keyasint,omitempty"`
	Note      []byte        `cbor:"3,keyasint,omitempty"`
	Message   string        `cbor:"4,keyasint,omitempty"`
	TTL       time.Duration `cbor:"5,keyasint,omitempty"`
	Poll      time.Duration `cbor:"6,keyasint,omitempty"`
	Updated   time.Time     `cbor:"7,keyasint,omitzero"`
	Ending    ending        `cbor:"8,keyasint,omitempty"`
	Bad       bool          `cbor:"9,keyasint,omitempty"`
	Cancelled bool          `cbor:"10,keyasint,omitempty"`
	// Effects are what may have to be undone, Failures how often that has failed, and LastError why.
	Effects   []string `cbor:"11,keyasint,omitempty"`
	Failures  int      `cbor:"12,keyasint,omitempty"`
	LastError string   `cbor:"13,keyasint,omitempty"`
	// Keep is until when it is shown after its end.
	Keep time.Time `cbor:"14,keyasint,omitzero"`
	// Wanted is until when it lives although no client looks at it; see crowd.go.
	Wanted time.Time `cbor:"15,keyasint,omitzero"`
}

func (s *state) summary() *summary {
	var effects []string
	if s.Client != nil {
		effects = s.Client.Effects
	}
	return &summary{
		Effects: effects,
		Saga:    s.Saga, Name: s.Name, Note: s.Note, Message: clip(s.Shown.Message), TTL: s.Times.TTL, Poll: s.Times.Poll, Updated: s.Shown.Updated,
		Ending: s.Shown.Ending, Bad: s.Shown.Bad, Cancelled: s.Cancelled, Failures: s.Running.Failures, LastError: s.Running.LastError,
		Keep: s.Times.Keep, Wanted: s.Times.Wanted,
	}
}

// rows reads and writes the rows of one audience. It is safe for concurrent use.
type rows struct {
	sealer
	store         store.Store
	reads, writes patience
	pace          pace
}

// load returns a row, or nil if there is none.
func (s *rows) load(ctx context.Context, id store.ID) (*row, error) {
	return s.loadBy(ctx, func() (*store.Record, error) { return s.store.Load(ctx, id) })
}

// find is load by another name of the row; see [store.Record.Request].
func (s *rows) find(ctx context.Context, request store.ID) (*row, error) {
	return s.loadBy(ctx, func() (*store.Record, error) { return s.store.Find(ctx, request) })
}

func (s *rows) loadBy(ctx context.Context, load func() (*store.Record, error)) (*row, error) {
	record, err := insist(ctx, &s.reads, load)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return nil, nil
	case err != nil:
		return nil, err
	case record.Audience != s.audience:
		return nil, nil
	}
	return s.openRow(record)
}

// openRow opens a record, and folds into it what has come since it was written.
func (s *rows) openRow(record *store.Record) (*row, error) {
	r := &row{Record: *record, read: time.Now()}
	if record.Format > format {
		return nil, fmt.Errorf("%w: a newer program wrote the record", turns.ErrNewer)
	}
	written := record.Head - uint64(len(record.Unread))
	if err := s.open(record.ID, placeState, written, record.State, &r.state); err != nil {
		return nil, err
	}
	r.State, r.written = nil, written
	for i := range record.Unread {
		e, err := s.openItem(record.ID, &record.Unread[i])
		if err != nil {
			return nil, err
		}
		r.fold(&e)
	}
	r.Unread = nil
	return r, nil
}

// fold has an input take effect.
func (r *row) fold(e *event) {
	if e.kind.visible() {
		r.Shown.Changes++
		r.Shown.Updated = e.at
	}
	switch e.kind {
	case kindAnswer:
		for _, a := range e.Answers {
			if !slices.ContainsFunc(r.Stand.Answers, func(b answer) bool { return a.ID == b.ID }) {
				r.Stand.Answers = append(slices.Clip(r.Stand.Answers), a)
			}
		}
		r.Stand.Given = append(slices.Clip(r.Stand.Given), e.Given...)
		r.Stand.Given = r.Stand.Given[max(0, len(r.Stand.Given)-mostGiven):]
	case kindCancel:
		if !r.Final && r.Undoing == nil {
			r.Cancelled = true
		}
	case kindUndo:
		switch {
		case r.Status.Over() || r.Undoing != nil: // it is tried again
		case r.Client != nil:
			r.UndoNow = true
		case !r.Final:
			r.Cancelled = true
		}
	case kindRenew:
		if r.Times.Wanted.Before(e.Until) && !r.Times.Wanted.IsZero() {
			r.Times.Wanted = e.Until
		}
		if e.Note != nil {
			r.Note = e.Note
		}
	case kindKeep:
		if r.Times.Keep.Before(e.Until) {
			r.Times.Keep = e.Until
		}
		if e.Note != nil {
			r.Note = e.Note
		}
	}
}

// clone returns a copy that can be changed, but for what its slices and pointers lead to.
func (r *row) clone() *row {
	c := *r
	return &c
}

// Times and tries of a write of which it is not known whether it was made.
const (
	settleTries = 5
	settlePause = 20 * time.Millisecond
	lastSettle  = time.Second
)

// sending is a change of a row that is being sent to the store.
type sending struct {
	r      *row
	record store.Record
	change store.Change
	// unsure: the store did not say whether it has made the change, so it is to be sent again.
	unsure bool
}

// prepare seals a row and events for its log, for the events' sake at least one.
func (s *rows) prepare(r *row, lease time.Duration, most int, events ...event) (*sending, error) {
	items, err := s.sealItems(r.ID, r.Head, events)
	if err != nil {
		return nil, err
	}
	for i := range events {
		if events[i].kind.tells() {
			r.Shown.Newest = items[i].N
		}
	}
	record := r.Record
	record.Format = format
	if record.State, err = s.seal(r.ID, placeState, r.Head+uint64(len(items)), &r.state); err != nil {
		return nil, err
	}
	if record.Summary, err = s.seal(r.ID, placeSummary, 0, r.summary()); err != nil {
		return nil, err
	}
	return &sending{r: r, record: record, change: store.Change{Items: items, Lease: lease, Most: most}}, nil
}

// write replaces a row, or makes it, and appends to its log. On success the row is as it is then. It
// fails with [store.ErrConflict] if the row is not as it was read.
func (s *rows) write(ctx context.Context, r *row, lease time.Duration, most int, events ...event) error {
	w, err := s.prepare(r, lease, most, events...)
	if err != nil {
		return err
	}
	return s.send(ctx, w)
}

// send is write for what is prepared. As long as it is not known whether the change was made, the same is
// sent again: a client that reads that it was not made may ask for the same, and have it twice. It may also be sent
// again later. All are for one version of the row, so only one of them can be made, however late the others
// arrive. The item that is found in its place says which.
func (s *rows) send(ctx context.Context, w *sending) error {
	for began, pause := time.Now(), settlePause; ; pause = min(2*pause, lastSettle) {
		_, err := insist(ctx, &s.writes, func() (any, error) {
			return nil, s.timed(func() error { return s.store.Write(ctx, &w.record, w.change) })
		})
		switch {
		case err == nil:
			w.record.State, w.record.Summary, w.record.Unread = nil, nil, nil
			w.r.Record, w.r.read, w.r.written, w.unsure = w.record, time.Now(), w.record.Head, false
			return nil
		case errors.Is(err, store.ErrConflict) && w.unsure:
			if err = s.settle(ctx, w.r, w.change.Items); err == nil || errors.Is(err, store.ErrConflict) {
				w.unsure = false
				return err
			}
		case errors.Is(err, store.ErrUnknown):
			w.unsure = true
		}
		if !w.unsure || time.Since(began) > outage || s.writes.failsLong() || sleep(ctx, pause) != nil {
			return err
		}
	}
}

// settle finds out whether a write was made that now meets a conflict.
func (s *rows) settle(ctx context.Context, r *row, items []store.Item) error {
	log, err := insist(ctx, &s.reads, func() (*store.Log, error) { return s.store.Log(ctx, r.ID, r.Head, 1) })
	switch {
	case errors.Is(err, store.ErrNotFound):
		return store.ErrConflict // with a row that has its other name
	case err != nil:
		return err
	}
	if len(log.Items) == 0 || log.Items[0].N != items[0].N || !bytes.Equal(log.Items[0].Body, items[0].Body) {
		return store.ErrConflict
	}
	found, err := insist(ctx, &s.reads, func() (*store.Record, error) { return s.store.Load(ctx, r.ID) })
	if err != nil {
		return err
	}
	// Others may have written since. If so, the next write of this row meets a conflict.
	r.Head += uint64(len(items))
	r.written = r.Head
	r.Until, r.Tries, r.Updated, r.Now, r.read = found.Until, 0, found.Updated, found.Now, time.Now()
	if r.Created.IsZero() {
		r.Created = found.Created
	}
	return nil
}

// signal appends an input to the log of a row, which may be held by others, and makes it due. The row
// is then as it is with that.
func (s *rows) signal(ctx context.Context, r *row, input event) error {
	items, err := s.sealItems(r.ID, r.Head, []event{input})
	if err != nil {
		return err
	}
	unsure := false
	for try := 0; ; try++ {
		_, err := insist(ctx, &s.writes, func() (any, error) { return nil, s.store.Signal(ctx, r.ID, r.Head, items...) })
		if errors.Is(err, store.ErrConflict) && unsure {
			log, found := insist(ctx, &s.reads, func() (*store.Log, error) { return s.store.Log(ctx, r.ID, r.Head, 1) })
			if err = found; err == nil && (len(log.Items) == 0 || !bytes.Equal(log.Items[0].Body, items[0].Body)) {
				err = store.ErrConflict
			}
		}
		switch {
		case err == nil:
			input.n, input.at = items[0].N, r.now()
			r.Head = items[0].N
			r.fold(&input)
			return nil
		case !errors.Is(err, store.ErrUnknown) && !unsure, errors.Is(err, store.ErrConflict), try >= settleTries:
			return err
		}
		unsure = true
		if sleep(ctx, settlePause<<try) != nil {
			return err
		}
	}
}

// timed does something of which it counts how long it takes.
func (s *rows) timed(do func() error) error {
	began := time.Now()
	defer func() { s.pace.took(time.Since(began)) }()
	return do()
}

// renew has leases end so long from now, and returns those that are others' now, or were given up.
func (s *rows) renew(ctx context.Context, held []store.Held, lease time.Duration) (lost []store.ID, err error) {
	err = s.timed(func() (err error) { lost, err = s.store.Renew(ctx, held, lease); return err })
	return lost, failure(ctx, err)
}

// take acquires rows that are due. What cannot be read is left for later, and counted.
func (s *rows) take(ctx context.Context, tools []store.Tool, limit int, lease time.Duration) (taken []*row, unread int, next time.Time, err error) {
	var unreadable []store.Held
	var again time.Duration
	found, next, err := s.store.Take(ctx, store.Take{Audience: s.audience, Tools: tools, Format: format, Limit: limit, Lease: lease})
	if err != nil {
		return nil, 0, next, failure(ctx, err)
	}
	for _, record := range found {
		if r, err := s.openRow(record); err == nil {
			taken = append(taken, r)
		} else {
			unreadable = append(unreadable, store.Held{ID: record.ID, Fence: record.Fence})
			again = max(again, min(lease<<min(record.Tries, 10), longestUnread))
		}
	}
	if len(unreadable) > 0 { // they come again when that is over, or the lease
		_, _ = s.renew(ctx, unreadable, again)
	}
	return taken, len(unreadable), next, nil
}

// longestUnread is for how long a row is left at most that cannot be read. Others may have the key.
const longestUnread = 30 * time.Second

// log returns events after a number. Items that cannot be read are left out.
func (s *rows) log(ctx context.Context, id store.ID, after uint64, limit int) (list []event, log *store.Log, err error) {
	log, err = insist(ctx, &s.reads, func() (*store.Log, error) { return s.store.Log(ctx, id, after, limit) })
	if err != nil {
		return nil, nil, err
	}
	for i := range log.Items {
		e, err := s.openItem(id, &log.Items[i])
		if err != nil {
			return nil, nil, err
		}
		list = append(list, e)
	}
	return list, log, nil
}
