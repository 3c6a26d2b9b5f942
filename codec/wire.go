package codec

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
)

// A token is the character below, then the unpadded base64url of what Tink
// produces: five bytes that name the key, the nonce, the ciphertext, the tag.
// The algorithm is the key's and is never named in the token.
const (
	// version is the format's name and the first character of every token. It is
	// associated data too, so one format's token is no token of another's.
	version byte = '1'

	keyPrefixSize = 5
	tinkPrefix    = 0x01
	// minSealed is a lower bound of what any allowed key produces.
	minSealed = keyPrefixSize + 16
)

// encoding is strict about the bits left over at the end: without that the last
// character would have several spellings.
var encoding = base64.RawURLEncoding.Strict()

// errAlphabet deliberately does not quote the token.
var errAlphabet = errors.New("not unpadded base64url in its canonical spelling")

// tokenLength returns the length of the token for a sealed part of n bytes.
func tokenLength(n int) int { return 1 + encoding.EncodedLen(n) }

// appendToken appends the token for a sealed part.
func appendToken(dst, sealed []byte) []byte {
	return encoding.AppendEncode(append(dst, version), sealed)
}

// decodeToken undoes appendToken, using the memory of b. The result is valid
// until b is released.
func decodeToken(b *buffers, token string) ([]byte, *Rejected) {
	switch {
	case token == "":
		return nil, Reject(ReasonMalformed, "the token is empty")
	case token[0] != version:
		return nil, Reject(ReasonVersion, "format %q is not known: this program reads format %q", token[0], version)
	case strings.IndexByte(token, '\r') >= 0 || strings.IndexByte(token, '\n') >= 0:
		// The decoder of the standard library skips line breaks even when strict.
		return nil, &Rejected{ReasonMalformed, errAlphabet}
	}
	b.text = append(b.text[:0], token[1:]...)
	sealed, err := encoding.AppendDecode(b.sealed[:0], b.text)
	if err != nil {
		return nil, &Rejected{ReasonMalformed, errAlphabet}
	}
	b.sealed = sealed
	if len(sealed) < minSealed {
		return nil, Reject(ReasonMalformed, "%d characters are too few", len(token))
	}
	return sealed, nil
}

// keyID returns the id of the key that sealed, and false if the first bytes are
// not a key's.
func keyID(sealed []byte) (uint32, bool) {
	if len(sealed) < keyPrefixSize || sealed[0] != tinkPrefix {
		return 0, false
	}
	return binary.BigEndian.Uint32(sealed[1:keyPrefixSize]), true
}

// tokenPrefix returns the characters with which every token of a key begins.
func tokenPrefix(id uint32) string {
	prefix := binary.BigEndian.AppendUint32([]byte{tinkPrefix}, id)
	// Five bytes are 6⅔ characters; only six depend on nothing else.
	return string(version) + encoding.EncodeToString(prefix)[:6]
}

// Inspection is what anybody can see of a token, without a key.
type Inspection struct {
	// Version is the token's format.
	Version string
	// KeyID is the id of the key that sealed it, if it was sealed at all:
	// nothing here is authenticated.
	KeyID uint32
	// Length is the token's length in characters.
	Length int
	// Sealed is the size of the encrypted part in bytes.
	Sealed int
}

// Inspect returns what can be seen of a token without a key. It fails with a
// *[Rejected] error if token is no token at all.
func Inspect(token string) (Inspection, error) {
	in := Inspection{Length: len(token)}
	if len(token) > HardMaxToken {
		return in, Reject(ReasonTooLong, "%d characters exceed the limit of %d", len(token), HardMaxToken)
	}
	if token != "" {
		in.Version = fmt.Sprintf("%c", token[0])
	}
	sealed, rejected := decodeToken(new(buffers), token)
	if rejected != nil {
		return in, rejected
	}
	in.Sealed = len(sealed)
	id, ok := keyID(sealed)
	if !ok {
		return in, Reject(ReasonUnknownKey, "the token does not begin with a key id")
	}
	in.KeyID = id
	return in, nil
}
