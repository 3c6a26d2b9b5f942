package server

import (
	"bytes"
	"net/http"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/sourcegraph/jsonrpc2"

	"github.com/mcpsaga/mcpsaga/internal/jsonview"
)

// maxBatch bounds the messages in one batch.
const maxBatch = 64

const batchText = "batches are not supported: send one message at a time"

// isBatch reports whether raw is an array.
func isBatch(raw []byte) bool {
	first := bytes.TrimLeft(raw, " \t\r\n")
	return len(first) > 0 && first[0] == '['
}

// splitBatch returns the messages of a batch (JSON-RPC 2.0, section 6).
func splitBatch(raw []byte) ([]jsontext.Value, *jsonrpc2.Error) {
	if jsonview.Deeper(raw, maxNesting+1) {
		return nil, rpcError(jsonrpc2.CodeInvalidRequest, deepText)
	}
	// Elements are not looked into here: each is read as a message by itself.
	dec := jsontext.NewDecoder(bytes.NewReader(raw))
	if _, err := dec.ReadToken(); err != nil {
		return nil, rpcError(jsonrpc2.CodeParseError, "the batch is not valid JSON")
	}
	var list []jsontext.Value
	for dec.PeekKind() != ']' {
		v, err := dec.ReadValue()
		if err != nil {
			return nil, rpcError(jsonrpc2.CodeParseError, "the batch is not valid JSON")
		}
		if list = append(list, v.Clone()); len(list) > maxBatch {
			return nil, rpcError(jsonrpc2.CodeInvalidRequest, "the batch has too many messages")
		}
	}
	if _, err := dec.ReadToken(); err != nil || len(bytes.TrimSpace(raw[dec.InputOffset():])) > 0 {
		return nil, rpcError(jsonrpc2.CodeParseError, "the batch is not valid JSON")
	}
	if len(list) == 0 {
		return nil, rpcError(jsonrpc2.CodeInvalidRequest, "the batch is empty")
	}
	return list, nil
}

// serveBatch answers a batch, which only sessions of 2025-03-26 may send.
func (d *handshake) serveBatch(w http.ResponseWriter, r *http.Request, c caller, body []byte) {
	if modern(r.Header) || r.Header.Get(sessionHeader) == "" {
		d.writeErrorTo(w, r, http.StatusBadRequest, rpcError(jsonrpc2.CodeInvalidRequest, batchText))
		return
	}
	if no := contradictoryBatch(r.Header); no != nil {
		d.writeError(w, no.status, no.Error)
		return
	}
	s := d.sessionOf(w, r, c, nil)
	if s == nil {
		return
	}
	defer d.release(s)
	list, fail := splitBatch(body)
	if !s.revision.batches() {
		fail = rpcError(jsonrpc2.CodeInvalidRequest, batchText)
	}
	if fail != nil {
		d.writeError(w, http.StatusBadRequest, fail)
		return
	}
	var requests []*message
	var wrong [][]byte
	for _, raw := range list {
		m, fail := parseBatched(raw)
		switch {
		case fail != nil:
			wrong = append(wrong, appendResponse(nil, m.id, nil, fail))
		case m.reply != nil:
			if err := s.answered(m.reply); err != nil {
				wrong = append(wrong, appendResponse(nil, nil, nil, rpcError(jsonrpc2.CodeInvalidRequest, err.Error())))
			}
		case m.notification():
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
func parseBatched(raw jsontext.Value) (message, *jsonrpc2.Error) {
	m, fail := parseMessage(raw)
	if fail == nil && (m.method == "initialize" || eraOf(&m, nil) != eraHandshake) {
		fail = rpcError(jsonrpc2.CodeInvalidRequest, "this cannot be part of a batch")
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
