package dialect

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"time"

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

// firstRoom is how much memory a body gets before anything of it has come, in bytes, but for what
// [bytes.Buffer] has free when it reads. Most fit in it.
const firstRoom = 4<<10 - bytes.MinRead

// ReadBody reads what was POSTed, wherever in the server that was. It reads the whole body, so that the request's context
// ends when the client goes away. What a client announces is no reason to set memory aside: that grows with what arrives.
// A large body takes x.Large before all of it is read, or is refused: all of them in a server take 32 MiB at most, until
// they are answered, or their tools wait for others.
func (h *Host) ReadBody(w http.ResponseWriter, r *http.Request, x *Exchange) ([]byte, *wire.Error) {
	most := h.Limits.MaxBody
	tooLarge := func() *wire.Error {
		return wire.Refuse(http.StatusRequestEntityTooLarge, wire.CodeInvalidRequest, "the message is too large")
	}
	if r.ContentLength > most {
		return nil, tooLarge()
	}
	var read bytes.Buffer
	read.Grow(int(max(0, min(firstRoom, r.ContentLength))) + bytes.MinRead)
	whole := http.MaxBytesReader(w, r.Body, most)
	_, err := read.ReadFrom(&io.LimitedReader{R: whole, N: jsonview.Large})
	if err == nil && read.Len() == jsonview.Large { // there may be more
		size := r.ContentLength
		if size < 0 {
			size = most
		}
		x.Large = &bounds.Place{Weight: int(min((size+largePlace-1)/largePlace, largePlaces))}
		if rerr := h.admit(r.Context(), x, h.Large, x.Large, ""); rerr != nil {
			read = bytes.Buffer{}
			_, _ = io.Copy(io.Discard, whole) // a client that still writes does not read
			return nil, rerr
		}
		_, err = read.ReadFrom(whole)
	}
	if err != nil {
		if errors.As(err, new(*http.MaxBytesError)) {
			return nil, tooLarge()
		}
		return nil, wire.Refuse(http.StatusBadRequest, wire.CodeParseError, "the body could not be read")
	}
	// What is read from now on is that the client goes away: the end of the server's
	// ReadTimeout would look the same, and cancel the turn.
	if hs, ok := r.Context().Value(http.ServerContextKey).(*http.Server); !ok || hs.ReadTimeout > 0 {
		http.NewResponseController(w).SetReadDeadline(time.Time{})
	}
	return read.Bytes(), nil
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
// one. A large message that is read leaves its own for good.
func (x *Exchange) Pause(read bool) (back func()) {
	if read {
		x.Large.Leave()
	}
	inside, outside := x.place.Rest(), RestOf(x.Way)
	return func() { outside(); inside() }
}
