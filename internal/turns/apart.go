package turns

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/binary"
	"errors"

	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/internal/tokens"
)

// What is too long for a token is kept in the ledger, if there is one. The token then has no
// state, which no position encodes to, and as its secret part a mark, the id of what is kept,
// and its digest.
const (
	apartMark = 'b'
	apartSize = 1 + 16 + sha256.Size
	// maxApart is how long what is kept apart may be, in bytes.
	maxApart = tokens.HardMaxPlaintext
)

// sealApart seals a token that refers to parts in the ledger.
func (r *Runner) sealApart(ctx context.Context, b tokens.Binding, claims tokens.Claims, parts engine.Encoded, undoable bool, account string) (string, error) {
	var data []byte
	for _, part := range [...][]byte{parts.Body, parts.State, parts.Effects, parts.Secrets} {
		data = append(binary.AppendUvarint(data, uint64(len(part))), part...)
	}
	if len(data) > maxApart {
		return "", &tokens.TooLargeError{What: "contents", Size: len(data), Limit: maxApart}
	}
	var id [16]byte
	rand.Read(id[:]) // never fails
	digest := sha256.Sum256(data)
	o := r.Codec.Options()
	keep := later(claims.IssuedAt.Add(o.TTL), claims.ExpiresAt).Add(o.Skew)
	if undoable {
		// Workers need it as long as they try, whatever clients may do then.
		keep = keep.Add(max(r.UndoGrace, UndoFor+KeepOutstanding))
	}
	if err := r.memory.PutBlob(ctx, b.Principal, account, id, data, keep); err != nil {
		return "", err
	}
	ref := append(append([]byte{apartMark}, id[:]...), digest[:]...)
	return r.Codec.Seal(b, claims.IssuedAt, &tokens.Contents{Claims: claims, Secret: ref})
}

// KeptApart reports whether a token refers to what a ledger holds.
func KeptApart(x *tokens.Contents) bool {
	return len(x.State) == 0 && len(x.Secret) == apartSize && x.Secret[0] == apartMark
}

// partsApart returns what a token for a principal refers to, whose secret part is ref.
func (r *Runner) partsApart(ctx context.Context, principal string, ref []byte) (parts engine.Encoded, err error) {
	if r.memory == nil {
		return parts, tokens.Reject(tokens.ReasonState, "its state is in a ledger, which this server has none of")
	}
	ref = ref[1:]
	data, err := r.memory.Blob(ctx, principal, [16]byte(ref[:16]))
	digest := sha256.Sum256(data)
	switch {
	case err != nil:
		return parts, err
	case data == nil:
		return parts, tokens.Reject(tokens.ReasonState, "its state is not in the ledger any more")
	case subtle.ConstantTimeCompare(digest[:], ref[16:]) != 1:
		return parts, tokens.Reject(tokens.ReasonState, "its state in the ledger is another one")
	}
	for _, part := range [...]*[]byte{&parts.Body, &parts.State, &parts.Effects, &parts.Secrets} {
		n, size := binary.Uvarint(data)
		if size <= 0 || n > uint64(len(data)-size) {
			return parts, tokens.Reject(tokens.ReasonState, "its state in the ledger does not decode")
		}
		*part, data = data[size:size+int(n)], data[size+int(n):]
	}
	return parts, nil
}

// tooLong reports whether an error says that a token, or what it holds, is too long: then the ledger has that.
func tooLong(err error) bool {
	var large *tokens.TooLargeError
	return errors.As(err, &large) && (large.What == "token" || large.What == "contents")
}
