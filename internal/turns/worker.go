package turns

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/internal/records"
	"github.com/mcpsaga/mcpsaga/internal/tokens"
	"github.com/mcpsaga/mcpsaga/ledger"
)

// Times and bounds of workers.
const (
	// workers is how many sagas a replica undoes at once.
	workers = 8
	// lookTime is how often a worker finds out which tools and revisions there are.
	lookTime = time.Minute
	// forgetTime is how often records are removed that nobody needs.
	forgetTime = 5 * time.Minute
	// longestOutage bounds the pauses between attempts to reach the ledger.
	longestOutage = 30 * time.Second
)

// Work undoes what sagas did whose clients never came back or whose workers died, tries again
// what could not be undone, and removes records that nobody needs, until ctx ends or the store
// is closed. Every
// replica with a ledger should have one worker; any of them does the work of one that died. It
// returns when all that it was at is written down. Without a ledger there is nothing to do.
func (r *Runner) Work(ctx context.Context) error {
	if r.records == nil {
		return nil
	}
	w := &worker{ledgered: ledgered{r}, slots: make(chan struct{}, workers)}
	var busy sync.WaitGroup
	defer busy.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	busy.Go(func() { w.forget(ctx) })
	for ctx.Err() == nil {
		list, err := w.take(ctx)
		if errors.Is(err, ledger.ErrClosed) {
			return err
		}
		if err != nil && ctx.Err() == nil {
			if w.outage == 0 {
				w.Log.ErrorContext(ctx, "the ledger cannot be used: sagas that are abandoned are not undone", "error", err)
			}
			w.outage = min(max(2*w.outage, time.Second), longestOutage)
			_ = pause(ctx, w.outage/2+rand.N(w.outage/2))
			continue
		}
		if w.outage > 0 && ctx.Err() == nil {
			w.Log.InfoContext(ctx, "the ledger can be used again")
			w.outage = 0
		}
		for _, e := range list {
			w.slots <- struct{}{}
			busy.Go(func() {
				defer func() { <-w.slots }()
				w.look(ctx, e)
			})
		}
	}
	return ctx.Err()
}

// worker looks after sagas whose clients do not come back.
type worker struct {
	ledgered
	slots chan struct{} // as many as it may look at at once
	// announced are the tools and revisions that are served here, and targets those whose sagas
	// can be undone here, as they were looked up last.
	announced, targets []records.Target
	looked             time.Time
	warned             time.Time     // when operators were told last of what cannot be read
	outage             time.Duration // the pause since the ledger failed; zero if it does not
}

// take waits until there are sagas to look at, and takes them.
func (w *worker) take(ctx context.Context) ([]*records.Entry, error) {
	if w.announced == nil || time.Since(w.looked) >= w.lookEvery {
		if err := w.announce(ctx); err != nil {
			return nil, err
		}
	}
	if len(w.targets) == 0 {
		return nil, pause(ctx, w.lookEvery)
	}
	select {
	case w.slots <- struct{}{}:
		<-w.slots
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	taking, cancel := context.WithTimeout(ctx, w.lookEvery)
	defer cancel()
	list, unreadable, err := w.records.Take(taking, w.targets, cap(w.slots)-len(w.slots), w.Lease)
	if unreadable > 0 && time.Since(w.warned) >= forgetTime {
		w.warned = time.Now()
		w.Log.ErrorContext(ctx, "sagas cannot be read, so they are not undone here: they were sealed with a key that is not enabled, or by a newer program, or were altered", "sagas", unreadable)
	}
	if taking.Err() != nil {
		return list, nil
	}
	return list, err
}

// announce tells other servers which tools and revisions this one has, and finds out theirs.
func (w *worker) announce(ctx context.Context) (err error) {
	own := w.TargetsOf((*engine.Program).Remembered)
	switch err := w.records.Announce(ctx, own); {
	case errors.Is(err, records.ErrUnreadable):
		w.Log.ErrorContext(ctx, "the ledger's list of tools cannot be read: sagas of revisions that are not served here may not be undone", "error", err)
	case err != nil:
		return err
	}
	w.announced = own
	if w.targets, err = w.Readable(ctx, own); err == nil {
		w.looked = time.Now()
	}
	return err
}

// pause waits, or until ctx ends.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// forget removes records now and then.
func (w *worker) forget(ctx context.Context) {
	for pause(ctx, forgetTime/2+rand.N(forgetTime)) == nil {
		if n, err := w.records.Forget(ctx); n > 0 || err == nil {
			w.Log.DebugContext(ctx, "records forgotten", "records", n)
		}
	}
}

// TargetsOf are those of this server's programs, as each may be called, that are wanted.
func (r *Runner) TargetsOf(wanted func(*engine.Program) bool) (list []records.Target) {
	for _, kind := range kinds {
		for _, newest := range r.Registry.Of(kind) {
			for _, p := range r.Registry.Revisions(kind, newest.Name) {
				if wanted(p) {
					list = append(list, records.Target{Name: p.Target, Revision: p.Revision})
				}
			}
		}
	}
	return list
}

// Readable returns the targets whose sagas can be ended here: own, and those of revisions that
// only older servers have had.
func (r *Runner) Readable(ctx context.Context, own []records.Target) ([]records.Target, error) {
	all, err := r.records.Targets(ctx)
	if err != nil {
		return nil, err
	}
	list := slices.Clone(own)
	for _, t := range all {
		if p, _ := r.ProgramOf(t.Name, t.Revision); p != nil && !slices.Contains(list, t) {
			list = append(list, t)
		}
	}
	return list, nil
}

// look looks at a saga that was taken.
func (w *worker) look(ctx context.Context, e *records.Entry) {
	now := w.Now()
	if e.Claim.Alive(w.leaseNow(ctx)) || e.GivenUp || now.Before(w.due(e)) && !w.undoing(e) {
		return // it comes again after the lease, or its owner moves it
	}
	p, newest := w.Registry.Reader(e.Target.Name, e.Target.Revision)
	served := p != nil
	if !served {
		p = newest // which can undo, if nothing else
	}
	if p == nil || len(e.ID) != len(tokens.ID{}) {
		return
	}
	m := &remembered{r: w.ledgered, of: identity{p, tokens.ID(e.ID)}, how: records.HowAbandoned, from: e.At, digest: []byte("abandoned")}
	m.request.Now, m.request.Purpose = now, e.Purpose
	cannot := m.takeOver(&found{entry: e, taken: e.Claim})
	if cannot == nil && !served && m.lost != nil && m.lost.Turn != nil && m.lost.Undo == nil {
		cannot = m.notServed(ctx)
	}
	gone := tokens.ReasonExpired
	if e.UndoNow {
		gone = reasonOperator
	}
	switch {
	case e.Ended, e.Claim != nil && e.Claim.How == records.HowCancelled:
		m.how, gone = records.HowCancelled, ""
	case e.Claim != nil && e.Claim.How == records.HowBroken, e.Purpose == Held.Purpose:
		m.how = records.HowBroken // nobody was told, and who asks again begins again
	}
	t := &Turn{Action: ActionUndo, Program: p, Saga: m.of.id, Number: e.At + 1, Caller: Caller{Principal: e.Principal}, must: true}
	end, err := w.hooked(ctx, t, func(ctx context.Context) (End, error) {
		if cannot != nil {
			return End{}, cannot
		}
		var end End
		err := engine.Protect(func() (err error) { // or one record would bring all servers down
			end, err = m.undo(ctx, nil, gone)
			return err
		})
		return m.settleUndo(ctx, m.how == records.HowCancelled && !e.Ended, end, err)
	})
	if err != nil && !m.claimed() {
		m.postpone(ctx, err)
	}
	m.logUndo(ctx, end, err)
}

// notServed is why what a turn did that was lost cannot be found: only its own code does. If
// it was the first one nothing else is known of the saga, so that is left to a server that has
// the revision, as long as workers try; otherwise what came before it is undone.
func (m *remembered) notServed(ctx context.Context) error {
	e := m.entry
	err := fmt.Errorf("a turn was lost, and revision %d of the tool is not served here, which alone can find what it did", e.Target.Revision)
	if e.Token == "" && m.lost.Base == nil {
		return err
	}
	m.r.Log.ErrorContext(ctx, "a saga is undone but for its last turn", "tool", m.of.program.Name, "saga", m.of.id.String(), "error", err)
	return nil
}

// postpone records that an undo has failed before it began, as where the saga stands cannot
// be read: else the saga would come again after each lease.
func (m *remembered) postpone(ctx context.Context, why error) {
	if ctx.Err() != nil || errors.Is(why, errOvertaken) || errors.Is(why, ErrLedger) && !errors.Is(why, records.ErrUnreadable) {
		return
	}
	e := m.entry.Clone()
	m.r.tryLater(e, why)
	if m.r.records.Put(ctx, e) == nil { // or it does come again
		m.entry = e
	}
}

// undoing reports whether a saga is not to go on whether or not its time is over.
func (r *Runner) undoing(e *records.Entry) bool {
	return e.Ended || e.Claim != nil && e.Claim.How != records.HowTurn
}

// hooked has the hook called, if there is one.
func (r *Runner) hooked(ctx context.Context, t *Turn, take func(context.Context) (End, error)) (End, error) {
	if r.Hook == nil {
		return take(ctx)
	}
	return r.around(ctx, t, take)
}

// logUndo tells operators what a worker did.
func (m *remembered) logUndo(ctx context.Context, end End, err error) {
	attrs := []any{"tool", m.of.program.Name, "saga", m.of.id.String()}
	report := UndoReport(end.Result)
	switch {
	case errors.Is(err, errOvertaken):
	case errors.Is(err, ErrLedger) && !errors.Is(err, records.ErrUnreadable), ctx.Err() != nil && err != nil:
		m.r.Log.WarnContext(ctx, "a saga was not undone, and will be tried again", append(attrs, "error", err)...)
	case err != nil && !EndsWith(m.of.program.Kind, err):
		m.r.Log.ErrorContext(ctx, "a saga cannot be undone, and will be tried again", append(attrs, "attempts", m.entry.Attempts, "error", err)...)
	case report != nil && len(report.Outstanding) > 0:
		text := "effects cannot be undone, and will be tried again"
		if m.entry.GivenUp {
			text = "effects cannot be undone, and will not be tried again"
		}
		m.r.Log.ErrorContext(ctx, text, append(attrs, "effects", report.Outstanding, "attempts", m.entry.Attempts, "error", end.Err)...)
	case report != nil:
		m.r.Log.InfoContext(ctx, "abandoned saga undone", append(attrs, "effects", report.Undone)...)
	default:
		m.r.Log.InfoContext(ctx, "abandoned saga has ended", attrs...)
	}
}
