package handshake

import (
	"context"
	"net/http"

	"github.com/mcpsaga/mcpsaga/server/internal/dialect"
	"github.com/mcpsaga/mcpsaga/server/internal/wire"
)

// Batchable implements [dialect.Batcher]. The handshake is not part of batches (MCP
// 2025-03-26, basic/lifecycle).
func (*handshake) Batchable(m *wire.Message) bool { return m.Method != "initialize" }

// replyToBatch answers a batch, which only sessions of 2025-03-26 may send.
func (d *handshake) replyToBatch(ctx context.Context, x *dialect.Exchange, r wire.Reply) {
	noBatch := wire.Refuse(http.StatusBadRequest, wire.CodeInvalidRequest, wire.BatchText)
	if x.Header.Get(wire.SessionHeader) == "" {
		r.Error(nil, noBatch)
		return
	}
	if rerr := dialect.ContradictoryBatch(x.Header); rerr != nil {
		r.Error(nil, rerr)
		return
	}
	s, rerr := d.sessionOf(x)
	if rerr != nil {
		r.Error(nil, rerr)
		return
	}
	defer d.release(s)
	rerr = x.BatchError
	if !s.revision.batches() {
		rerr = noBatch
	}
	if rerr != nil {
		rerr.Status = http.StatusBadRequest
		r.Error(nil, rerr)
		return
	}
	var requests []*wire.Message
	wrong := make([][]byte, 0, len(x.Batch)) // responses to what was no message
	for i := range x.Batch {
		m := &x.Batch[i].Message
		switch rerr := x.Batch[i].Error; {
		case rerr != nil:
			wrong = append(wrong, wire.AppendResponse(nil, m.ID, nil, rerr))
		case m.Reply != nil:
			if err := s.answered(m.Reply); err != nil {
				wrong = append(wrong, wire.AppendResponse(nil, nil, nil, wire.NewError(wire.CodeInvalidRequest, err.Error())))
			}
		case m.Notification():
			s.notified(m)
		default:
			requests = append(requests, m)
		}
	}
	if len(requests)+len(wrong) == 0 {
		r.Empty(http.StatusAccepted)
		return
	}
	d.replyWithStream(ctx, x, r, s, requests, wrong)
}
