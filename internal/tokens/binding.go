package tokens

import "encoding/binary"

// Binding names the circumstances a token is bound to. None of it is stored in
// the token: it is associated data of the encryption, so a token presented
// under another binding does not decrypt, and cannot be told from a forgery.
//
// [Options.Audience] and the format version are bound in the same way. Fields
// may be empty and hold any bytes; each is bound with its length, so moving a
// character from one field to the next gives a different binding.
type Binding struct {
	// Purpose separates kinds of token sealed with the same keys, such as
	// "saga" and "checkpoint".
	Purpose string
	// Tenant is whose data the token holds, in a deployment that serves several.
	Tenant string
	// Principal is who may present the token: issuer, subject and whatever else
	// identifies a caller. Empty means an anonymous caller.
	Principal string
}

// associated appends the associated data for b: a fixed label with the format
// version, then every field preceded by its length.
func (b Binding) associated(dst []byte, version byte, audience string) []byte {
	dst = append(dst, "mcpsaga token "...)
	dst = append(dst, version)
	for _, field := range [...]string{b.Purpose, audience, b.Tenant, b.Principal} {
		dst = binary.AppendUvarint(dst, uint64(len(field)))
		dst = append(dst, field...)
	}
	return dst
}
