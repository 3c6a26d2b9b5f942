package dialect

import (
	"context"
	"log/slog"
	"net/http"

	"github.com/mcpsaga/mcpsaga/internal/jsonview"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server/internal/bounds"
	"github.com/mcpsaga/mcpsaga/server/internal/wire"
)

const (
	tooOftenText = "this caller sends too many requests: send the same request again later"
	crowdedText  = "the server has too much to do: send the same request again later"
)

// Admit gives a request that may run an author's code its place, before anything is done for it, or refuses it. What
// makes no work for long passes: lists, looks at tasks, and all that ends something.
func (h *Host) Admit(ctx context.Context, x *Exchange) *wire.Error {
	tool := ""
	switch x.Message.Method {
	case "tools/call", MethodCall:
		tool, _ = jsonview.String(jsonview.Get(x.Message.Params, "name"))
	case MethodResume, "prompts/get", "resources/read", "completion/complete", "tasks/update":
	default:
		return nil
	}
	if h.Gate == nil {
		return nil
	}
	met, wait := h.Gate.Admit(ctx, &x.place, x.Account, tool)
	if met == "" {
		return nil
	}
	refused, level := wire.Later(http.StatusTooManyRequests, met, tooOftenText, wait), slog.LevelInfo
	if met == bounds.Busy {
		refused, level = wire.Later(http.StatusServiceUnavailable, met, crowdedText, wait), slog.LevelWarn
	}
	h.Gate.Log.Do(func() {
		h.Log.Log(ctx, level, "requests refused", "reason", met, "method", x.Message.Method, "subject", saga.CallerOf(ctx).Subject, "address", x.LedgerAccount(""))
	})
	return refused
}

// Pause has a request leave its place while it waits for its client, or for a task; back takes one again, when there is
// one.
func (x *Exchange) Pause() (back func()) {
	inside, outside := x.place.Rest(), RestOf(x.Way)
	return func() { outside(); inside() }
}
