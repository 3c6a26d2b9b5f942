package wire

import (
	"bytes"
	"encoding/json"
	"strconv"
	"sync"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// AppendResponse writes a response. Without an id, an error says null: the
// request's id could not be read (JSON-RPC 2.0, section 5).
func AppendResponse(b []byte, id jsontext.Value, result []byte, rerr *Error) []byte {
	if id == nil {
		id = jsontext.Value("null")
	}
	b = append(append(b, `{"jsonrpc":"2.0","id":`...), id...)
	if rerr != nil {
		return appendError(append(b, ','), rerr)
	}
	return append(append(append(b, `,"result":`...), result...), '}')
}

// AppendErrorWithoutID writes an error response without an id. It is how MCP says from
// 2026-07-28 on that the request's id could not be read (basic/index).
func AppendErrorWithoutID(b []byte, rerr *Error) []byte {
	return appendError(append(b, `{"jsonrpc":"2.0",`...), rerr)
}

func appendError(b []byte, rerr *Error) []byte {
	b = append(b, `"error":{"code":`...)
	b = strconv.AppendInt(b, rerr.Code, 10)
	b = append(b, `,"message":`...)
	b = AppendString(b, rerr.Message)
	if rerr.Data != nil {
		b = append(b, `,"data":`...)
		b = append(b, rerr.Data...)
	}
	return append(b, "}}"...)
}

// AppendString writes a JSON string. What is not UTF-8 is replaced.
func AppendString(b []byte, s string) []byte {
	out, err := jsontext.AppendQuote(b, s)
	if err != nil {
		out, _ = jsontext.AppendQuote(b, string(bytes.ToValidUTF8([]byte(s), []byte("\uFFFD"))))
	}
	return out
}

// AppendRequest writes a request of the server's own, whose ids are numbers.
func AppendRequest(b []byte, id uint64, method string, params []byte) []byte {
	b = strconv.AppendUint(append(b, `{"jsonrpc":"2.0","id":`...), id, 10)
	return appendCall(append(b, ','), method, params)
}

// AppendNotification writes a notification; params may be nil.
func AppendNotification(b []byte, method string, params []byte) []byte {
	return appendCall(append(b, `{"jsonrpc":"2.0",`...), method, params)
}

func appendCall(b []byte, method string, params []byte) []byte {
	b = AppendString(append(b, `"method":`...), method)
	if params != nil {
		b = append(append(b, `,"params":`...), params...)
	}
	return append(b, '}')
}

// Marshal writes maps in one order, so that the same response is always the same
// bytes, and empty lists as such.
func Marshal(v any) (json.RawMessage, error) {
	return jsonv2.Marshal(v, jsonv2.FormatNilSliceAsNull(false), jsonv2.Deterministic(true))
}

// BufferPool has buffers that responses are put together in. What it gets back is
// wiped, so nothing that one caller was told can turn up in what another is.
//
// A response is some of a kilobyte, and several of them were a good part of what
// a turn left to the garbage collector.
type BufferPool struct{ pool sync.Pool }

const (
	// usualResponse is what most responses fit in, in bytes.
	usualResponse = 2 << 10
	// largestKept is the largest buffer worth keeping, in bytes: a large response
	// must not stay for the sake of small ones.
	largestKept = 16 << 10
)

// Get returns a buffer to append to.
func (p *BufferPool) Get() *[]byte {
	if b, ok := p.pool.Get().(*[]byte); ok {
		return b
	}
	b := make([]byte, 0, usualResponse)
	return &b
}

// Put ends the use of what Get returned and of used, which is what has become of
// it. Nobody may look at either any more.
func (p *BufferPool) Put(b *[]byte, used []byte) {
	if cap(used) <= largestKept {
		clear(used[:cap(used)]) // all of it: a response may have been begun and then replaced
		*b = used[:0]
		p.pool.Put(b)
	}
}
