package handshake

import (
	"context"
	"encoding/json"
	"strconv"
	"time"

	"github.com/mcpsaga/mcpsaga/server/internal/dialect"
	"github.com/mcpsaga/mcpsaga/server/internal/handshake/revision"
	"github.com/mcpsaga/mcpsaga/server/internal/wire"
	"github.com/mcpsaga/mcpsaga/steps"
)

// way is the way to the client of a request that was POSTed: the request's stream.
type way struct {
	*session
	stream *stream
	call   *sessionCall
}

func (w *way) Notify(method string, params json.RawMessage) {
	w.stream.addMarked(w.mark(), eventNote, wire.AppendCall(nil, 0, method, params))
}

func (w *way) Call(ctx context.Context, method string, params json.RawMessage) (steps.Answer, error) {
	answer := make(chan steps.Answer, 1)
	asked := &question{call: w.call, answer: answer}
	w.mu.Lock()
	if w.call.asking == 0 { // what the call was answered before is in use no longer
		w.held -= w.call.answers
		w.call.answers = 0
	}
	w.call.asking++
	id, mark := w.questionID(), w.call.mark
	w.waiting[id] = asked
	w.mu.Unlock()
	number := w.stream.addMarked(mark, eventRequest, wire.AppendCall(nil, id, method, params))
	defer func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		// A client that reads on after a break must not ask its user what needs no answer any more.
		w.stream.drop(func(e streamEvent) bool { return e.number == number })
		w.call.asking--
		if w.waiting[id] == asked {
			delete(w.waiting, id)
		}
	}()
	select {
	case a := <-answer:
		return a, nil
	case <-ctx.Done():
		w.Notify(dialect.Cancellation(strconv.AppendUint(nil, id, 10), context.Cause(ctx)))
		return steps.Answer{}, context.Cause(ctx)
	}
}

func (w *way) Hangup(retry time.Duration) {
	if w.revision >= revision.November2025 { // others cannot resume
		w.stream.carriedBy(nil, retry)
	}
}

// KeepOpen implements [dialect.Way]: nothing of these revisions is without an end.
func (*way) KeepOpen() (<-chan struct{}, *wire.Error) { return nil, wire.NotFound() }
