package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	jsonv2 "github.com/go-json-experiment/json"

	"github.com/mcpsaga/mcpsaga/internal/durable"
	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/internal/ident"
	"github.com/mcpsaga/mcpsaga/internal/jsonview"
	"github.com/mcpsaga/mcpsaga/internal/schema"
	"github.com/mcpsaga/mcpsaga/internal/store"
	"github.com/mcpsaga/mcpsaga/server/internal/dialect"
	"github.com/mcpsaga/mcpsaga/server/internal/wire"
)

// Errors of deliveries. A value that does not fit is an error of its own, whose text says why. Any other error is the
// ledger's, or the saga is just being ended: deliver again.
var (
	// ErrNoEvent: there is no such handle, or no such event.
	ErrNoEvent = durable.ErrNoEvent
	// ErrEventTaken: another value was delivered before, and the first one counts.
	ErrEventTaken = durable.ErrEventOther
	// ErrEventGone: it is too late, as the event was not waited for any longer, or its saga has ended, asked or not.
	ErrEventGone = durable.ErrEventGone
)

// happened is the answer to an event; see [steps.Event].
type happened struct {
	Action  string          `json:"action"`
	Content json.RawMessage `json:"content,omitzero"`
	Reason  string          `json:"reason,omitzero"`
}

var errNoLedger = errors.New("server: events need Options.Ledger")

// Deliver gives the event of a handle ([saga.Handle]) its value, which is encoded as JSON: nil stands for an empty object,
// and a json.RawMessage for itself. The first value counts: the same again is fine, as who delivers may not know that it
// has arrived, and another one is refused with [ErrEventTaken]. It may come before the saga asks, by a day. Any server
// with the same Ledger takes it. If it fails with [ErrEventGone], the saga does not have the value and will not; if it
// succeeds and the saga ends without it all the same, the saga's effects are undone after that.
//
// Who has the handle is trusted with the value: check what a provider signs before.
func (s *Server) Deliver(ctx context.Context, handle string, value any) error {
	_, err := s.deliver(ctx, handle, &happened{Action: "accept"}, value)
	return err
}

// Reject is Deliver for something that will not happen: the saga gets [steps.ErrDeclined], with the reason if there is one.
func (s *Server) Reject(ctx context.Context, handle, reason string) error {
	_, err := s.deliver(ctx, handle, &happened{Action: "decline", Reason: reason}, nil)
	return err
}

// Signal is Deliver for all sagas that have asked for an event of a tool with a [steps.Key], now or within a day. tool and event are
// their names. The value has to fit the event of any revision that the server has.
func (s *Server) Signal(ctx context.Context, tool, event, key string, value any) error {
	if s.keeper == nil {
		return errNoLedger
	}
	s.keeper.begin()
	revisions := s.host.Tools.Revisions(engine.KindTool, tool)
	if len(revisions) == 0 {
		return fmt.Errorf("%w: this server has no tool %q", ErrNoEvent, tool)
	}
	if reason := ident.KeyProblem(key); reason != "" {
		return fmt.Errorf("%w: no saga can ask for it: %s", ErrNoEvent, reason)
	}
	result, err := encodeHappened(&happened{Action: "accept"}, value)
	if err != nil {
		return err
	}
	fits := func(p *engine.Program) bool { return p.CheckEvent(event, result) == nil }
	if err := revisions[0].CheckEvent(event, result); err != nil && !slices.ContainsFunc(revisions, fits) {
		return fmt.Errorf("tool %q, event %q: %w", tool, event, err)
	}
	_, err = s.keeper.core.Deliver(ctx, s.keeper.core.AtKey(revisions[0].Target, event, key), result)
	return err
}

func (s *Server) deliver(ctx context.Context, handle string, what *happened, value any) (early bool, err error) {
	if s.keeper == nil {
		return false, errNoLedger
	}
	s.keeper.begin()
	name, err := s.keeper.core.AtHandle(ctx, handle)
	if err != nil {
		return false, err
	}
	result, err := encodeHappened(what, value)
	if err != nil {
		return false, err
	}
	return s.keeper.core.Deliver(ctx, name, result)
}

func encodeHappened(what *happened, value any) ([]byte, error) {
	if what.Action == "accept" {
		what.Content = json.RawMessage("{}")
	}
	if value != nil {
		raw, err := jsonv2.Marshal(value, schema.JSONOptions)
		if err != nil {
			return nil, fmt.Errorf("the value of an event cannot be encoded: %w", err)
		}
		what.Content = raw
	}
	return jsonv2.Marshal(what, schema.JSONOptions)
}

// EventHandler takes deliveries by HTTP, for whom can be given an address with a handle in it. Mount it where these can
// reach it, apart from the server's own [Server.Handler], whose callers and hosts it does not ask for: the handle is what
// lets a caller in. It answers
//
//	POST /HANDLE with the value as JSON, or nothing for an empty object
//	POST /HANDLE/reject with the reason as text, or nothing
//
// with 200, or 202 if no saga has asked yet; 400 if the body is no JSON and 422 if it does not fit the event; 404 if there
// is no such handle, 409 if another value was delivered before, 410 if it is too late, 413 if the body is longer than
// Options.MaxBody, and 503 if it is to be sent again later, also as the saga is just being ended.
func (s *Server) EventHandler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		status, text := s.takeEvent(w, r)
		if status == http.StatusServiceUnavailable {
			w.Header().Set("Retry-After", "10")
		}
		wire.Reply{Writer: w}.JSON(status, append(wire.AppendString([]byte(`{"status":`), text), '}'))
	})
}

func (s *Server) takeEvent(w http.ResponseWriter, r *http.Request) (status int, text string) {
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		return http.StatusMethodNotAllowed, "POST the value"
	}
	handle, action, _ := strings.Cut(strings.Trim(r.URL.Path, "/"), "/")
	if action != "" && action != "reject" || s.keeper == nil {
		return http.StatusNotFound, ErrNoEvent.Error()
	}
	at, err := s.keeper.core.AtHandle(r.Context(), handle) // before the body is read
	if err != nil {
		return s.eventStatus(r, err)
	}
	x := &dialect.Exchange{Message: new(wire.Message), Header: r.Header, Account: s.account(r, "")}
	if at.Row != (store.ID{}) {
		x.Account = "saga " + at.Row.String()
	}
	defer func() { x.Large.Leave() }()
	body, rerr := s.host.ReadBody(w, r, x)
	if rerr != nil {
		return rerr.Status, rerr.Message
	}
	what, value := &happened{Action: "accept"}, any(nil)
	switch {
	case action == "reject":
		what = &happened{Action: "decline", Reason: strings.ToValidUTF8(string(body), "�")}
	case len(body) > 0 && (!jsonview.Valid(body) || wire.Excess(body, wire.MaxNesting) != ""):
		return http.StatusBadRequest, "the body is not valid JSON"
	case len(body) > 0:
		value = json.RawMessage(body)
	}
	early, err := s.deliver(r.Context(), handle, what, value)
	switch {
	case err != nil:
		return s.eventStatus(r, err)
	case early:
		return http.StatusAccepted, "kept until a saga asks for it"
	}
	return http.StatusOK, "delivered"
}

// eventStatus says why a delivery was refused.
func (s *Server) eventStatus(r *http.Request, err error) (status int, text string) {
	var wrong *durable.ValueError
	switch {
	case errors.Is(err, ErrNoEvent):
		return http.StatusNotFound, err.Error()
	case errors.Is(err, ErrEventTaken):
		return http.StatusConflict, err.Error()
	case errors.Is(err, ErrEventGone):
		return http.StatusGone, err.Error()
	case errors.As(err, &wrong):
		return http.StatusUnprocessableEntity, err.Error()
	}
	s.log.WarnContext(r.Context(), "an event cannot be taken", "error", err)
	return http.StatusServiceUnavailable, "it cannot be taken now: send it again later"
}
