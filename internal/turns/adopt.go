package turns

import (
	"context"
	"errors"

	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/internal/records"
	"github.com/mcpsaga/mcpsaga/internal/tokens"
)

// A saga that clients have driven so far, and that goes on as a task, may have a record of its
// own: it says which turns were taken, and has the saga undone when nobody comes back. The task
// takes its place. The saga is claimed first, then the task is made, and then the saga ends as
// far as its own record is concerned; if that is lost, whoever runs the task ends it.

// OpenTask opens the token that a client has brought, so that the saga goes on as a task. It
// fails as [Runner.Resume] does before code of the tool runs. The saga is the caller's until
// it calls [TaskTurn.Begun] or [TaskTurn.Drop].
func (r *Runner) OpenTask(ctx context.Context, q Request) (TaskTurn, error) {
	o, err := r.open(ctx, &q, false)
	if err == nil && o.gone != nil {
		err = o.gone
	}
	if err != nil {
		return TaskTurn{}, r.Report(ctx, q.Method, err)
	}
	return TaskTurn{
		Caller: q.Caller(), Program: o.program, Saga: o.id, Position: o.pos, Client: q.Client, Answers: q.Answers, Trace: q.Trace,
		Arguments: resent(&q),
	}, nil
}

// resent are the arguments of a position that has none of its own.
func resent(q *Request) []byte {
	if !q.Policy.Resent {
		return nil
	}
	return orEmpty(q.Arguments)
}

// Claim makes sure that the saga of a task that was opened with q goes on by nobody else.
func (r *Runner) Claim(ctx context.Context, q Request, t *TaskTurn) error {
	if !r.remembers(t.Program) {
		return nil
	}
	o, err := r.open(ctx, &q, false)
	if err != nil {
		return r.Report(ctx, q.Method, err)
	}
	t.Adopted = append([]byte("task "), DigestAnswers(t)...)
	for {
		f, err := ledgered{r}.find(ctx, q.Principal, o.identity, o.pos.Turn, t.Adopted, records.HowTurn)
		if err != nil {
			return r.Report(ctx, q.Method, r.failed(o.identity, err))
		}
		if f.known {
			return nil
		}
		m, err := ledgered{r}.remember(&q, o, &f)
		if err == nil {
			m.digest, m.request.Turn = t.Adopted, t.Adopted
			err = m.claim(ctx)
		}
		if err == nil {
			t.claim = m
			return nil
		}
		if !errors.Is(err, errOvertaken) {
			return r.Report(ctx, q.Method, r.failed(o.identity, err))
		}
	}
}

// Begun says that there is a task in the saga's place.
func (t *TaskTurn) Begun(ctx context.Context) {
	if t.claim != nil {
		_ = t.claim.write(ctx, func(e *records.Entry) { t.claim.adopted(e) }) // or the task does it
		t.claim = nil
	}
}

// Drop says that there is no task, so that the client can go on from its token.
func (t *TaskTurn) Drop(ctx context.Context) {
	if t.claim != nil {
		t.claim.give(ctx, nil)
		t.claim = nil
	}
}

// adopted records that the saga goes on as a task.
func (m *remembered) adopted(e *records.Entry) {
	e.How, e.Digest, e.Response, e.Report = records.HowTurn, m.digest, nil, nil
	e.From, e.At = m.from, max(e.At, m.from)
	m.close(e, nil, nil)
}

// Adopt makes sure, before a task runs, that its saga goes on by nobody else. It fails with a
// *[tokens.Rejected] if it does.
func (r *Runner) Adopt(ctx context.Context, principal string, p *engine.Program, saga tokens.ID, turn uint32, digest []byte) error {
	for {
		f, err := ledgered{r}.find(ctx, principal, identity{p, saga}, turn, digest, records.HowTurn)
		if err != nil || f.known || !f.entry.Exists() {
			return err
		}
		m := &remembered{r: ledgered{r}, of: identity{p, saga}, from: turn, digest: digest, entry: f.entry}
		if err := m.write(ctx, m.adopted); !errors.Is(err, errOvertaken) {
			return err
		}
	}
}
