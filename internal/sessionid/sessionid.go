// Package sessionid encodes what the ids of sessions hold. Servers make these ids, and the
// command saga explains them.
package sessionid

import (
	"log/slog"

	"github.com/mcpsaga/mcpsaga/steps"
)

// The purposes for which session ids and resume tokens are sealed. They keep them apart from
// all else that the keys seal.
const (
	Purpose       = "session"
	ResumePurpose = "resume"
)

// Terms are what a handshake agreed on, as far as the server understands it.
type Terms struct {
	Revision  byte // in Revisions
	Features  steps.Features
	Guest     bool // the client has declared asynchronous tools (SEP-1391)
	Resumable bool // the client can resume requests
	Apps      bool // the client shows forms of the server's (MCP Apps)
	Trusted   bool // and these may give consents
	Level     slog.Level
}

// Revisions are the protocol versions with a handshake, the oldest first.
var Revisions = [...]string{"2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"}

// format is the format of terms: this byte, the revision and appsBit and trustedBit, the features as bits, the log level.
// Ids of earlier formats live as long as sessions do after a change.
const format = 1

// featureBits are the features in the order of their bits. New ones come at the end.
var featureBits = [...]steps.Features{
	{Forms: true}, {Links: true}, {Sampling: true}, {SamplingTools: true}, {SamplingContext: true}, {Roots: true},
}

// resumableBit, beside those of features, says that the client can resume requests.
const resumableBit = 1 << 7

// appsBit and trustedBit, beside the revision, are Terms.Apps and Terms.Trusted. Servers that do not know them take such
// an id for that of a newer program.
const appsBit, trustedBit = 1 << 7, 1 << 6

// guestBit is that of Terms.Guest. No feature may have it.
const guestBit = 1 << 6

var _ [6 - len(featureBits)]struct{}

// Bytes are the terms as they are sealed.
func (t *Terms) Bytes() []byte {
	var bits byte
	for i, f := range featureBits {
		if t.Features.Has(f) {
			bits |= 1 << i
		}
	}
	if t.Guest {
		bits |= guestBit
	}
	if t.Resumable {
		bits |= resumableBit
	}
	revision := t.Revision
	if t.Apps {
		revision |= appsBit
	}
	if t.Trusted {
		revision |= trustedBit
	}
	return []byte{format, revision, bits, byte(int8(t.Level))}
}

// Parse reads what Bytes has made. It reports false if a newer program has.
func Parse(state []byte) (t Terms, ok bool) {
	if len(state) != 4 || state[0] != format || int(state[1]&^(appsBit|trustedBit)) >= len(Revisions) {
		return t, false
	}
	t = Terms{Revision: state[1] &^ (appsBit | trustedBit), Apps: state[1]&appsBit != 0, Trusted: state[1]&trustedBit != 0,
		Guest: state[2]&guestBit != 0, Resumable: state[2]&resumableBit != 0, Level: slog.Level(int8(state[3]))}
	for i, f := range featureBits {
		if state[2]&(1<<i) != 0 {
			t.Features = t.Features.With(f)
		}
	}
	return t, true
}
