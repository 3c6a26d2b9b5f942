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
	return h.admit(ctx, x, h.Gate, &x.place, tool)
}

// largePlace is how many bytes of large messages are one place in [Host.Large], which has largePlaces of them.
const (
	largePlace  = 64 << 10
	largePlaces = 512
)

// NewLarge returns the gate for large messages.
func NewLarge() *bounds.Gate { return bounds.New(bounds.Config{Places: largePlaces}) }

// AdmitLarge gives a message of so many bytes its place among the large ones, before all of it is read, or refuses it.
// All of them in a server take 32 MiB at most, until they are answered, or their tools wait for others.
func (h *Host) AdmitLarge(ctx context.Context, x *Exchange, size int64) *wire.Error {
	x.Large = &bounds.Place{Weight: int(min((size+largePlace-1)/largePlace, largePlaces))}
	return h.admit(ctx, x, h.Large, x.Large, "")
}

func (h *Host) admit(ctx context.Context, x *Exchange, g *bounds.Gate, p *bounds.Place, tool string) *wire.Error {
	met, wait := g.Admit(ctx, p, x.Account, tool)
	if met == "" {
		return nil
	}
	refused, level := wire.Later(http.StatusTooManyRequests, met, tooOftenText, wait), slog.LevelInfo
	if met == bounds.Busy {
		refused, level = wire.Later(http.StatusServiceUnavailable, met, crowdedText, wait), slog.LevelWarn
	}
	g.Log.Do(func() {
		h.Log.Log(ctx, level, "requests refused", "reason", met, "method", x.Message.Method, "subject", saga.CallerOf(ctx).Subject, "address", x.LedgerAccount(""))
	})
	return refused
}

// Pause has a request leave its place while it waits for its client, or for a task; back takes one again, when there is
// one. A large message leaves its own for good: nothing of it is read any more.
func (x *Exchange) Pause() (back func()) {
	x.Large.Leave()
	inside, outside := x.place.Rest(), RestOf(x.Way)
	return func() { outside(); inside() }
}
