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
	fromHeader, _, problem := wire.HeaderValue(x.Header, KeyHeader)
	if inner, quoted := strings.CutPrefix(fromHeader, `"`); quoted { // a string of RFC 8941, as the draft has it; most write it as it is
		inner, quoted = strings.CutSuffix(inner, `"`)
		if fromHeader = inner; !quoted || strings.ContainsAny(inner, `"\`) {
			problem = "begins with a quote, and is not a string without quotes and backslashes inside"
		}
	}
	if problem == "" && len(x.Header[KeyHeader]) > 0 && !validKey(fromHeader) {
		problem = keyForm
	}
	if problem != "" {
		return "", badKey("the header " + KeyHeader + " " + problem)
	}
	member := jsonview.Get(x.Message.Params, "_meta", KeyMember)
	if member == nil {
		return fromHeader, nil
	}
	key, ok := jsonview.String(member)
	if !ok || !validKey(key) {
		return "", badKey("params._meta: " + KeyMember + " " + keyForm)
	}
	if fromHeader != "" && fromHeader != key {
		return "", badKey("the header " + KeyHeader + " is not the " + KeyMember + " in params._meta: send one of them, or the same")
	}
	return key, nil
}

const keyForm = "must be 1 to 255 visible ASCII characters, without spaces"

func validKey(key string) bool {
	return key != "" && len(key) <= MaxKey && !strings.ContainsFunc(key, func(r rune) bool { return r <= ' ' || r > '~' })
}

func badKey(text string) *wire.Error {
	return wire.Refuse(http.StatusBadRequest, wire.CodeInvalidParams, text)
}
