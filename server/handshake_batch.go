package server

import (
	"net/http"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/mcpsaga/mcpsaga/server/internal/wire"
)

// serveBatch answers a batch, which only sessions of 2025-03-26 may send.
func (d *handshake) serveBatch(w http.ResponseWriter, r *http.Request, c caller, body []byte) {
	if modern(r.Header) || r.Header.Get(wire.SessionHeader) == "" {
		d.writeErrorTo(w, r, http.StatusBadRequest, wire.NewError(wire.CodeInvalidRequest, wire.BatchText))
		return
	}
	if no := contradictoryBatch(r.Header); no != nil {
		d.writeError(w, no.Status, no)
		return
	}
	s := d.sessionOf(w, r, c, nil)
	if s == nil {
		return
	}
	defer d.release(s)
	list, fail := wire.SplitBatch(body)
	if !s.revision.batches() {
		fail = wire.NewError(wire.CodeInvalidRequest, wire.BatchText)
	}
	if fail != nil {
		d.writeError(w, http.StatusBadRequest, fail)
		return
	}
	var requests []*wire.Message
	var wrong [][]byte
	for _, raw := range list {
		m, fail := parseBatched(raw)
		switch {
		case fail != nil:
			wrong = append(wrong, wire.AppendResponse(nil, m.ID, nil, fail))
		case m.Reply != nil:
			if err := s.answered(m.Reply); err != nil {
				wrong = append(wrong, wire.AppendResponse(nil, nil, nil, wire.NewError(wire.CodeInvalidRequest, err.Error())))
			}
		case m.Notification():
			s.notified(&m)
		default:
			requests = append(requests, &m)
		}
	}
	if len(requests)+len(wrong) == 0 {
		w.WriteHeader(http.StatusAccepted)
		return
	}
	d.serveStream(w, r, c, s, requests, &batched{wrong})
}

// parseBatched reads a message of a batch. The handshake is not part of batches
// (MCP 2025-03-26, basic/lifecycle).
func parseBatched(raw jsontext.Value) (wire.Message, *wire.Error) {
	m, fail := wire.Parse(raw)
	if fail == nil && (m.Method == "initialize" || eraOf(&m, nil) != eraHandshake) {
		fail = wire.NewError(wire.CodeInvalidRequest, "this cannot be part of a batch")
	}
	return m, fail
}

// batched says that requests came in a batch, with the responses to what was no
// message.
type batched struct{ wrong [][]byte }

// lineBatch collects the responses to a batch that came as one line: they leave as
// one line.
type lineBatch struct {
	due       int
	responses []byte
}

// add takes the response to one of the batch's messages, nil if it has none, and
// returns the line to write, or nil if there is none yet.
func (b *lineBatch) add(response []byte) []byte {
	if response != nil {
		b.responses = append(append(b.responses, ','), response...)
	}
	if b.due--; b.due > 0 || b.responses == nil {
		return nil
	}
	b.responses[0] = '['
	return append(b.responses, ']')
}
