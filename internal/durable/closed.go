package durable

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/mcpsaga/mcpsaga/internal/store"
	"github.com/mcpsaga/mcpsaga/internal/turns"
)

// ErrHeld: a server is at work on the saga.
var ErrHeld = errors.New("a server works on it now: try again in a moment")

// closedText is what the client of a saga reads that was closed.
const closedText = "The operator of the server has ended the saga. What it did stays."

// CloseNow ends a saga that [Operator.Waiting] has listed without undoing anything: what it did is the operator's to see to. It
// returns the names of that, and fails with [ErrNothingWaits], or with [ErrHeld] if it cannot be closed just now.
func (o *Operator) CloseNow(ctx context.Context, id store.ID) (stays []string, err error) {
	r, err := o.rows.load(ctx, id)
	switch {
	case err != nil:
		return nil, err
	case r == nil, r.Status == store.Ended:
		return nil, ErrNothingWaits
	case r.Until.After(r.now()):
		return nil, ErrHeld
	}
	stays = r.did()
	outstanding := r.Status == store.Outstanding // its client knows how it has ended: only what is still to be undone is given up
	r.Stand, r.Begun.Arguments = stand{Given: r.Stand.Given, Asked: r.Stand.Asked}, nil
	r.Undoing, r.Again, r.Running, r.Cancelled, r.UndoNow = nil, nil, running{}, false, false
	r.Status, r.Wake, r.Times.Keep = store.Ended, time.Time{}, later(r.Times.Keep, r.now().Add(r.Times.Retain))
	switch end := failedEnd(closedText); {
	case r.Client != nil:
		raw, err := turns.EncodeResponse(&end, nil)
		if err != nil {
			return nil, err
		}
		if outstanding && r.Client.How != howAbandoned {
			r.Client.Report = raw // for a client that cancels again: the response of its last turn stays
			break
		}
		// The response of an abandoned saga promises another try of the undo: this one takes its place.
		r.Client.answered(howAbandoned, 0, nil, raw)
		r.Client.Turn, r.Client.Token = nil, ""
		r.Times.Keep = later(r.Times.Keep, r.Client.Expires.Add(maxSlack)) // servers take the token for longer, as their clocks may differ
	case outstanding: // End stays
	default:
		if r.End, err = encoder.Marshal(recordedFailure{Text: closedText}); err != nil {
			return nil, err
		}
		r.Shown.Ending, r.Shown.Message, r.Shown.Updated = failed, closedText, r.now()
	}
	r.Keep = keepUntil(r)
	events := []event{{kind: kindUndone, body: body{Text: textClosed, Effects: stays}}}
	if !outstanding {
		events = append(events, event{kind: kindEnd, body: body{Ending: failed, Text: closedText}})
	}
	if err = o.rows.write(ctx, r, 0, events...); errors.Is(err, store.ErrConflict) {
		err = ErrHeld
	}
	return stays, err
}

// did are the names of what a saga has begun, as far as that is known, or of what is still to be undone.
func (r *row) did() []string {
	if r.Client != nil {
		return r.Effects
	}
	at := r.Stand.Position
	if r.Undoing != nil && r.Undoing.Position != nil {
		at = r.Undoing.Position
	} else if r.Again != nil {
		at = r.Again
	}
	if pos, _ := decodePosition(at, r.Saga); pos != nil {
		return counted(pos.Effects())
	}
	return nil
}

// ended is why a saga waits for nothing any more, as its log has it.
func (o *Operator) ended(ctx context.Context, id store.ID) error {
	var begun, stays []string
	for e, err := range o.History(ctx, id) {
		switch {
		case err != nil:
			return err
		case e.Kind == string(kindUndoing):
			begun = e.Effects
		case e.Text == textClosed:
			return fmt.Errorf("%w: %s", ErrClosed, cmp.Or(strings.Join(e.Effects, ", "), "nothing that the ledger knows of"))
		case e.Text == textStays:
			stays = e.Effects
		}
	}
	if stays == nil {
		return ErrNothingWaits
	}
	text := "what has no Undo stays: " + strings.Join(stays, ", ")
	undone := slices.DeleteFunc(counted(begun), func(name string) bool { return slices.Contains(stays, name) })
	if len(undone) > 0 {
		text += "\nUndone: " + strings.Join(undone, ", ")
	}
	return errors.New(text)
}

// ErrClosed: an operator has closed the saga.
var ErrClosed = errors.New("it is not undone: an operator has closed it, and what it did stays")
