package durable

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/internal/store"
	"github.com/mcpsaga/mcpsaga/internal/turns"
	"github.com/mcpsaga/mcpsaga/steps"
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

func (r *row) now() time.Time { return r.Now.Add(time.Since(r.read)) }

// turnTime is the time of the turn that comes after pos: the same if it is taken again, as the time may be in the input
// of an effect that is performed again.
func (r *row) turnTime(now time.Time, pos *engine.Position) time.Time {
	began := r.Stand.Since
	if r.Client != nil && r.Client.Turn != nil {
		began = r.Client.Turn.Now
	}
	switch {
	case began.IsZero(), pos != nil && now.Before(pos.Wake):
		return now
	case pos != nil:
		return later(began, pos.Wake)
	}
	return began
}

// rows reads and writes the rows of one audience. It is safe for concurrent use.
type rows struct {
	sealer
	store         store.Store
	reads, writes patience
}

// load returns a row, or nil if there is none.
func (s *rows) load(ctx context.Context, id store.ID) (*row, error) {
	return s.loadBy(ctx, func() (*store.Record, error) { return s.store.Load(ctx, id) })
}

// find is load by another name of the row; see [store.Record.Request].
func (s *rows) find(ctx context.Context, request store.ID) (*row, error) {
	r, err := s.loadBy(ctx, func() (*store.Record, error) { return s.store.Find(ctx, request) })
	if errors.Is(err, ErrUnreadable) {
		return nil, fmt.Errorf("%w: %v", turns.ErrKeyUnreadable, err) // there is no token that could be refused
	}
	return r, err
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
	switch {
	case record.Format > format:
		return nil, fmt.Errorf("%w: a newer program wrote the record", turns.ErrNewer)
	case record.Format < format:
		return nil, fmt.Errorf("%w: a program before the first release wrote it", ErrUnreadable)
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
	if traits[e.kind]&seen != 0 {
		r.Shown.Changes++
		r.Shown.Updated = e.at
	}
	switch e.kind {
	case kindAnswer:
		for _, a := range e.Answers {
			if !hasAnswer(r.Stand.Answers, a.StepID) {
				r.Stand.Answers, r.Stand.Since = append(slices.Clip(r.Stand.Answers), a), later(r.Stand.Since, e.at)
				r.hears(heardOf(r.Stand.Events, []steps.Answer{a}))
			}
		}
		given := append(slices.Clip(r.Stand.Given), e.Given...)
		r.Stand.Given = given[max(0, len(given)-mostGiven):]
		if e.Granted != nil {
			r.Granted = e.Granted
		}
	case kindCancel:
		r.Cancelled = r.Cancelled || !r.Final && r.Undoing == nil
	case kindUndo: // what has ended, or is being undone, is tried again as it is
		if wanted := !r.Status.Over() && r.Undoing == nil; r.Client != nil {
			r.UndoNow = r.UndoNow || wanted
		} else {
			r.Cancelled = r.Cancelled || wanted && !r.Final
		}
	case kindRenew:
		if !r.Times.Wanted.IsZero() {
			r.Times.Wanted = later(r.Times.Wanted, e.Until)
		}
	case kindKeep:
		r.Times.Keep = later(r.Times.Keep, e.Until)
	}
	if e.Note != nil {
		r.Note = e.Note
	}
}

// clone returns a copy that can be changed, but for what its slices lead to.
func (r *row) clone() *row {
	c := *r
	if r.Client != nil {
		own := *r.Client
		c.Client = &own
	}
	if r.Undoing != nil {
		own := *r.Undoing
		c.Undoing = &own
	}
	return &c
}

// Pauses between tries of a write of which it is not known whether it was made.
const (
	firstSettle = 20 * time.Millisecond
	lastSettle  = time.Second
)

// sending is a change of a row that is being sent to the store.
type sending struct {
	r      *row
	record store.Record
	change store.Change
	// unsure: the store did not say whether it has made the change, so it is to be sent again.
	unsure bool
	// told are those of the events that tools have told, and term is from when on the row is acquired, if it is.
	told []event
	term term
}

// prepare seals a row and events for its log, for the events' sake at least one.
func (s *rows) prepare(r *row, lease time.Duration, most int, events ...event) (*sending, error) {
	items, err := s.sealItems(r.ID, r.Head, events)
	if err != nil {
		return nil, err
	}
	for i := range events {
		if traits[events[i].kind]&told != 0 {
			r.Shown.Newest = items[i].N
		}
	}
	record := r.Record
	record.Format, r.Effects = format, counted(r.Effects)
	if record.State, err = s.seal(r.ID, placeState, r.Head+uint64(len(items)), &r.state); err != nil {
		return nil, err
	}
	if record.Summary, err = s.seal(r.ID, placeSummary, 0, &r.summary); err != nil {
		return nil, err
	}
	return &sending{r: r, record: record, change: store.Change{Items: items, Lease: lease, Most: most}}, nil
}

// maxNames is how long the names of effects in a summary are altogether, in bytes, so that this is small however
// much a saga does.
const maxNames = 8 << 10

// counted has each name once, in the order in which they came first, and says how often it came, if it came again.
func counted(names []string) (list []string) {
	times := make(map[string]int)
	for _, name := range names {
		if times[name]++; times[name] == 1 {
			list = append(list, name)
		}
	}
	size := 0
	for i, name := range list {
		if n := times[name]; n > 1 {
			list[i] = fmt.Sprintf("%s (%d times)", name, n)
		}
		if size += len(list[i]); size > maxNames {
			return append(list[:i], fmt.Sprintf("%d more", len(list)-i))
		}
	}
	return list
}

// write replaces a row that no process holds, or makes it, and appends to its log. On success the row is as it
// is then. It fails with [store.ErrConflict] if the row is not as it was read.
func (s *rows) write(ctx context.Context, r *row, most int, events ...event) error {
	if r.Head > 0 {
		r.Fence++
	}
	w, err := s.prepare(r, 0, most, events...)
	if err != nil {
		return err
	}
	return s.send(ctx, w)
}

// send is write for what is prepared. If it fails and is unsure, it can be sent again later.
func (s *rows) send(ctx context.Context, w *sending) error {
	settled, err := s.append(ctx, w.r, w.change.Items[0], &w.unsure, func() error {
		return s.store.Write(ctx, &w.record, w.change)
	})
	if err != nil {
		return err
	}
	if r := &w.record; settled { // others may have written since: then the next write meets a conflict
		r.Head, r.Tries, r.Now = w.change.Items[len(w.change.Items)-1].N, 0, w.r.now()
		if r.Created.IsZero() {
			r.Created = r.Now
		}
		r.Updated = r.Now
	}
	w.record.State, w.record.Summary, w.record.Unread = nil, nil, nil
	w.r.Record, w.r.read, w.r.written = w.record, time.Now(), w.record.Head
	return nil
}

// append makes a write that appends first to the log of a row, and maybe more. As long as it is not known
// whether it was made, which unsure says, the same is written again: a client that reads that it was not made may
// ask for the same, and have it twice. All are for one version of the row, so only one of them can be made, however
// late the others arrive. The item that is found in its place says which; settled says that this was found so.
func (s *rows) append(ctx context.Context, r *row, first store.Item, unsure *bool, write func() error) (settled bool, err error) {
	for began, pause := time.Now(), firstSettle; ; pause = min(2*pause, lastSettle) {
		_, err := insist(ctx, &s.writes, func() (any, error) { return nil, write() })
		switch {
		case err == nil:
			*unsure = false
			return false, nil
		case errors.Is(err, store.ErrUnknown):
			*unsure = true
		case errors.Is(err, store.ErrConflict) && *unsure:
			var log *store.Log
			log, err = insist(ctx, &s.reads, func() (*store.Log, error) { return s.store.Log(ctx, r.ID, r.Head, 1) })
			switch {
			case err == nil && len(log.Items) > 0 && log.Items[0].N == first.N && bytes.Equal(log.Items[0].Body, first.Body):
				*unsure = false
				return true, nil
			case err == nil, errors.Is(err, store.ErrNotFound): // the conflict was with a row that has its other name
				*unsure = false
				return false, store.ErrConflict
			}
		}
		if !*unsure || time.Since(began) > outage || s.writes.failsLong() || sleep(ctx, pause) != nil {
			return false, err
		}
	}
}

// signal appends an input to the log of a row, which may be held by others, and makes it due. The row
// is then as it is with that.
func (s *rows) signal(ctx context.Context, r *row, input event) error {
	items, err := s.sealItems(r.ID, r.Head, []event{input})
	if err != nil {
		return err
	}
	unsure := false
	if _, err := s.append(ctx, r, items[0], &unsure, func() error { return s.store.Signal(ctx, r.ID, r.Head, items...) }); err != nil {
		return err
	}
	input.n, input.at = items[0].N, r.now()
	r.Head = items[0].N
	r.fold(&input)
	return nil
}

// renew has leases end so long from now, and returns those that are others' now, or were given up.
func (s *rows) renew(ctx context.Context, held []store.Held, lease time.Duration) (lost []store.ID, err error) {
	lost, err = s.store.Renew(ctx, held, lease)
	return lost, failure(ctx, err)
}

// take acquires rows that are due. What cannot be read is left for later, and counted.
func (s *rows) take(ctx context.Context, tools []store.Tool, limit int, lease time.Duration) (taken []*row, unread int, next time.Time, err error) {
	var unreadable []store.Held
	found, next, err := s.store.Take(ctx, store.Take{Audience: s.audience, Tools: tools, Format: format, Limit: limit, Lease: lease})
	if err != nil {
		return nil, 0, next, failure(ctx, err)
	}
	for _, record := range found {
		if r, err := s.openRow(record); err == nil {
			taken = append(taken, r)
		} else {
			unreadable = append(unreadable, store.Held{ID: record.ID, Fence: record.Fence, Unread: true})
		}
	}
	if len(unreadable) > 0 { // they come again when that is over, or the lease
		_, _ = s.renew(ctx, unreadable, min(2*lease, longestUnread))
	}
	return taken, len(unreadable), next, nil
}

// longestUnread is for how long a row is left at most that cannot be read. Others may have the key.
const longestUnread = 30 * time.Second

// log returns events after a number. The key of older ones may not be enabled any more: these are of kindUnreadable.
func (s *rows) log(ctx context.Context, id store.ID, after uint64, limit int) (list []event, log *store.Log, err error) {
	log, err = insist(ctx, &s.reads, func() (*store.Log, error) { return s.store.Log(ctx, id, after, limit) })
	if err != nil {
		return nil, nil, err
	}
	for i := range log.Items {
		e, err := s.openItem(id, &log.Items[i])
		if err != nil {
			e.kind, e.Text = kindUnreadable, err.Error()
		}
		list = append(list, e)
	}
	return list, log, nil
}

// pageSize is how many records, or entries of a log, are read at a time.
const pageSize = 200

// events yields the events of a log after a number, in order. It ends after an error.
func (s *rows) events(ctx context.Context, id store.ID, after uint64) iter.Seq2[*event, error] {
	return func(yield func(*event, error) bool) {
		for more := true; more; {
			events, _, err := s.log(ctx, id, after, pageSize)
			if err != nil {
				yield(nil, err)
				return
			}
			for i := range events {
				if !yield(&events[i], nil) {
					return
				}
				after = events[i].n
			}
			more = len(events) == pageSize
		}
	}
}

// list yields the records that a filter names, without their states, from a place on. So many are read at a time.
// It ends after an error.
func (s *rows) list(ctx context.Context, f store.Filter, after store.Cursor, page int) iter.Seq2[*store.Record, error] {
	return func(yield func(*store.Record, error) bool) {
		for n := page; n == page; {
			found, err := insist(ctx, &s.reads, func() ([]*store.Record, error) { return s.store.List(ctx, f, after, page) })
			if err != nil {
				yield(nil, err)
				return
			}
			for _, record := range found {
				if !yield(record, nil) {
					return
				}
				after = store.Cursor{Created: record.Created, ID: record.ID}
			}
			n = len(found)
		}
	}
}
