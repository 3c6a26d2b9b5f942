package wire

import (
	"bytes"
	"encoding/json"
	"strconv"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// AppendResponse writes a response. Without an id, an error says null: the
// request's id could not be read (JSON-RPC 2.0, section 5).
func AppendResponse(b []byte, id jsontext.Value, result []byte, fail *Error) []byte {
	if fail == nil {
		return append(append(BeginResponse(b, id), result...), '}')
	}
	return appendError(append(appendID(b, id), ','), fail)
}

// BeginResponse writes a response up to its result, after which only a closing
// brace is missing.
func BeginResponse(b []byte, id jsontext.Value) []byte {
	return append(appendID(b, id), `,"result":`...)
}

func appendID(b []byte, id jsontext.Value) []byte {
	b = append(b, `{"jsonrpc":"2.0","id":`...)
	if id == nil {
		return append(b, "null"...)
	}
	return append(b, id...)
}

// AppendErrorWithoutID writes an error response without an id. It is how MCP says from
// 2026-07-28 on that the request's id could not be read (basic/index).
func AppendErrorWithoutID(b []byte, fail *Error) []byte {
	return appendError(append(b, `{"jsonrpc":"2.0",`...), fail)
}

func appendError(b []byte, fail *Error) []byte {
	b = append(b, `"error":{"code":`...)
	b = strconv.AppendInt(b, fail.Code, 10)
	b = append(b, `,"message":`...)
	b = AppendString(b, fail.Message)
	if fail.Data != nil {
		b = append(b, `,"data":`...)
		b = append(b, fail.Data...)
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
