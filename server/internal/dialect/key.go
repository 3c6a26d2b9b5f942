package dialect

import (
	"net/http"
	"strings"

	"github.com/mcpsaga/mcpsaga/internal/jsonview"
	"github.com/mcpsaga/mcpsaga/server/internal/wire"
)

// A client that may have to repeat a first call, whose response it may have missed, sends a
// key of its own choice with it: in _meta, or over HTTP as a header
// (draft-ietf-httpapi-idempotency-key-header). Servers without a ledger ignore it.
const (
	// KeyMember is the key's member of a request's _meta. In the _meta of a tool it says
	// that the tool takes keys.
	KeyMember = "io.github.mcpsaga/idempotencyKey"
	// KeyHeader is its header, spelled as package http keeps it.
	KeyHeader = "Idempotency-Key"
	// MaxKey is the longest key, in bytes.
	MaxKey = 255
)

// IdempotencyKey returns the key that a first call came with, or "" if there is none, or
// the server has no ledger to know it again by.
func (h *Host) IdempotencyKey(x *Exchange) (string, *wire.Error) {
	if !h.TakesKeys {
		return "", nil
	}
	fromHeader, rerr := keyOfHeader(x.Header)
	if rerr != nil {
		return "", rerr
	}
	member := jsonview.Get(jsonview.Get(x.Message.Params, "_meta"), KeyMember)
	if member == nil {
		return fromHeader, nil
	}
	key, ok := jsonview.String(member)
	if !ok || !validKey(key) {
		return "", badKey("params._meta: " + KeyMember + keyForm)
	}
	if fromHeader != "" && fromHeader != key {
		return "", badKey("the header " + KeyHeader + " is not the " + KeyMember + " in params._meta: send one of them, or the same")
	}
	return key, nil
}

// keyOfHeader returns the key in a header. It may be a string of RFC 8941, as the draft has
// it, or stand there as it is, as most clients write it.
func keyOfHeader(h http.Header) (string, *wire.Error) {
	if len(h[KeyHeader]) == 0 {
		return "", nil
	}
	key, _, problem := wire.HeaderValue(h, KeyHeader)
	if problem != "" {
		return "", badKey("the header " + KeyHeader + " " + problem)
	}
	if inner, ok := strings.CutPrefix(key, `"`); ok {
		inner, ok = strings.CutSuffix(inner, `"`)
		if !ok || strings.ContainsAny(inner, `"\`) {
			return "", badKey("the header " + KeyHeader + " begins with a quote, and is not a string without quotes and backslashes inside")
		}
		key = inner
	}
	if !validKey(key) {
		return "", badKey("the header " + KeyHeader + keyForm)
	}
	return key, nil
}

const keyForm = " must be 1 to 255 visible ASCII characters, without spaces"

func validKey(key string) bool {
	for i := range len(key) {
		if key[i] <= ' ' || key[i] > '~' {
			return false
		}
	}
	return key != "" && len(key) <= MaxKey
}

func badKey(text string) *wire.Error {
	return wire.Refuse(http.StatusBadRequest, wire.CodeInvalidParams, text)
}

// KeyOfBatch refuses a header with a key for a batch, of which no header can tell.
func (h *Host) KeyOfBatch(header http.Header) *wire.Error {
	if !h.TakesKeys || len(header[KeyHeader]) == 0 {
		return nil
	}
	return badKey("the header " + KeyHeader + " is of one call, and this is a batch: give each its key in params._meta")
}
