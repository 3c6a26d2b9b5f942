// Package proposal is the dialect of the saga proposal: tools/callSaga and
// tools/resumeSaga, and tools/cancelSaga. Its clients need no handshake and no session:
// the token that they carry has everything.
package proposal

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/mcpsaga/mcpsaga/server/internal/dialect"
	"github.com/mcpsaga/mcpsaga/server/internal/wire"
)

type proposal struct{ *dialect.Host }

// New is of the type [dialect.New].
func New(h *dialect.Host) (dialect.Dialect, error) { return &proposal{h}, nil }

func (*proposal) Name() string { return "saga proposal" }

func (*proposal) Match(m *wire.Message, _ http.Header) bool {
	return m.Method == dialect.MethodCall || m.Method == dialect.MethodResume || m.Method == dialect.MethodCancel
}

func (p *proposal) Serve(ctx context.Context, x *dialect.Exchange) (json.RawMessage, *wire.Error) {
	end, err := p.Saga(ctx, x)
	if err == nil {
		var result []byte
		if result, err = p.SagaResult(&end); err == nil {
			return result, nil
		}
	}
	return nil, p.Translate(ctx, x.Message.Method, err)
}
