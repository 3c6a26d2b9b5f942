package tasks2025

import (
	"context"
	"encoding/json"

	"github.com/mcpsaga/mcpsaga/server/internal/dialect"
	"github.com/mcpsaga/mcpsaga/steps"
)

// StatusMethod is the notification that has a task in it, and so need not say of which it is.
const StatusMethod = "notifications/tasks/status"

// Related is a way on which messages say that they belong to a task.
type Related struct {
	dialect.Way
	Task string
}

// Notify implements [dialect.Way].
func (r Related) Notify(method string, params json.RawMessage) {
	if method != StatusMethod {
		params = dialect.RelatedTask(params, r.Task)
	}
	r.Way.Notify(method, params)
}

// Call implements [dialect.Way].
func (r Related) Call(ctx context.Context, method string, params json.RawMessage) (steps.Answer, error) {
	return r.Way.Call(ctx, method, dialect.RelatedTask(params, r.Task))
}

// Rest implements [dialect.Rester].
func (r Related) Rest() (back func()) { return dialect.Rest(r.Way) }
