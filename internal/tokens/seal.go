package tokens

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"time"
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

// Format names the format of the tokens that this package seals. It opens all formats up to
// this one.
const Format = string(rune(version))

// encoding is strict about the bits left over at the end: without that the last
// character would have several spellings.
var encoding = base64.RawURLEncoding.Strict()

// What is encrypted, in this order:
//
//	flags      1 byte: the coding of the body, and which optional parts follow
//	issued     4 bytes: seconds since 1970, big endian
//	expires    span after issued
//	deadline   span after issued, if flagged
//	id         16 bytes
//	turn       varint
//	revision   varint
//	tool       varint length, bytes
//	request    varint length, bytes, if flagged
//	trace      varint length, bytes, if flagged
//	secret     varint length, bytes, if flagged
//	apart      varint length and coding, bytes, if flagged
//	plain      varint length, bytes, if flagged together with apart
//	body       the state, coded as flagged, up to the padding
//	padding    the byte 0x80, then zeros
//
// The body needs no length: it ends at the last byte of the whole that is not zero.
const (
	flagDeadline = 0x10
	flagRequest  = 0x20
	flagTrace    = 0x40
	flagSecret   = 0x80
	// flagParts was a bit of the coding that no coding had; programs from before take
	// it for a coding that they do not know, and refuse the token.
	flagParts  = 0x08
	codingMask = 0x07
	codingBits = 3

	paddingMark = 0x80
)

// Seal returns a token that holds x, for the given binding. Times that are zero
// in x.Claims are filled in from now and the options, see [Claims]; x itself is
// not changed.
//
// It fails with a *[TooLargeError] if x or the token exceeds a limit, and if the claims make
// no sense.
func (c *Codec) Seal(b Binding, now time.Time, x *Contents) (string, error) {
	if x == nil {
		return "", errors.New("tokens: there is nothing to seal")
	}
	claims, err := c.complete(&x.Claims, now)
	if err != nil {
		return "", err
	}
	size := len(x.State) + len(x.Apart) + len(x.Plain) + len(x.Secret)
	if size > c.options.MaxPlaintext {
		return "", &TooLargeError{"contents", size, c.options.MaxPlaintext}
	}

	buf, _ := c.buffers.Get().(*buffers)
	if buf == nil {
		buf = new(buffers)
	}
	defer c.release(buf)
	plain := appendClaims(buf.plain[:0], 0, &claims, x.Secret)
	if len(x.Apart)+len(x.Plain) > 0 {
		coding, apart := c.zstd.encode(buf, x.Apart)
		plain = appendParts(plain, coding, apart, x.Plain)
	}
	coding, body := c.zstd.encode(buf, x.State)
	plain[0] |= coding
	plain = append(append(plain, body...), paddingMark)
	buf.plain = append(plain, make([]byte, paddedSize(len(plain))-len(plain))...)
	buf.associated = b.associated(buf.associated[:0], version, c.options.Audience)

	sealed, err := c.keys.Load().aead.Encrypt(buf.plain, buf.associated)
	if err != nil {
		return "", fmt.Errorf("tokens: seal: %w", err)
	}
	if n := 1 + encoding.EncodedLen(len(sealed)); n > c.options.MaxToken {
		return "", &TooLargeError{"token", n, c.options.MaxToken}
	}
	buf.text = encoding.AppendEncode(append(buf.text[:0], version), sealed)
	return string(buf.text), nil
}

// complete returns the claims with their times filled in, after checking them.
func (c *Codec) complete(in *Claims, now time.Time) (Claims, error) {
	claims := *in
	if claims.IssuedAt.IsZero() {
		claims.IssuedAt = now
	}
	if claims.ExpiresAt.IsZero() {
		claims.ExpiresAt = claims.IssuedAt.Add(c.options.TTL)
		if !claims.Deadline.IsZero() && claims.Deadline.Before(claims.ExpiresAt) {
			claims.ExpiresAt = claims.Deadline
		}
	}
	for _, part := range [...]struct {
		what       string
		size, most int
	}{
		{"tool", len(claims.Tool), MaxTool},
		{"request", len(claims.Request), MaxRequest},
		{"trace", len(claims.Trace), MaxTrace},
	} {
		if part.size > part.most {
			return claims, &TooLargeError{part.what, part.size, part.most}
		}
	}
	issued := claims.IssuedAt.Unix()
	if !claims.Deadline.IsZero() && claims.Deadline.Unix() < issued {
		return claims, fmt.Errorf("tokens: claim Deadline: %w: it was %v, before the token is issued at %v", ErrOver, claims.Deadline, claims.IssuedAt)
	}
	for _, t := range [...]struct {
		claim string
		at    time.Time
	}{{"IssuedAt", claims.IssuedAt}, {"ExpiresAt", claims.ExpiresAt}, {"Deadline", claims.Deadline}} {
		if t.claim == "Deadline" && t.at.IsZero() {
			continue
		}
		switch at := t.at.Unix(); {
		case at < 0 || at > math.MaxUint32:
			return claims, fmt.Errorf("tokens: claim %s is %v, which is not between 1970 and 2106", t.claim, t.at)
		case at < issued:
			return claims, fmt.Errorf("tokens: claim %s is %v, which is before the token is issued at %v", t.claim, t.at, claims.IssuedAt)
		}
	}
	return claims, nil
}

// appendClaims appends what comes before the parts and the body. Claims must have been
// checked.
func appendClaims(dst []byte, coding byte, c *Claims, secret []byte) []byte {
	at := len(dst)
	dst = append(dst, coding)
	issued := c.IssuedAt.Unix()
	dst = binary.BigEndian.AppendUint32(dst, uint32(issued))
	spans := []int64{c.ExpiresAt.Unix() - issued}
	if !c.Deadline.IsZero() {
		dst[at] |= flagDeadline
		spans = append(spans, c.Deadline.Unix()-issued)
	}
	for _, seconds := range spans {
		span := uint64(seconds) << 1
		if seconds%60 == 0 { // whole minutes take half the room
			span = uint64(seconds)/60<<1 | 1
		}
		dst = binary.AppendUvarint(dst, span)
	}
	dst = append(dst, c.ID[:]...)
	dst = binary.AppendUvarint(dst, uint64(c.Turn))
	dst = binary.AppendUvarint(dst, uint64(c.Revision))
	dst = binary.AppendUvarint(dst, uint64(len(c.Tool)))
	dst = append(dst, c.Tool...)
	for _, part := range [...]struct {
		flag byte
		data []byte
	}{{flagRequest, c.Request}, {flagTrace, c.Trace}, {flagSecret, secret}} {
		if len(part.data) > 0 {
			dst[at] |= part.flag
			dst = binary.AppendUvarint(dst, uint64(len(part.data)))
			dst = append(dst, part.data...)
		}
	}
	return dst
}

// appendParts appends the parts of a state that are kept from the body, to what
// appendClaims began at the beginning of dst.
func appendParts(dst []byte, coding byte, apart, plain []byte) []byte {
	dst[0] |= flagParts
	dst = binary.AppendUvarint(dst, uint64(len(apart))<<codingBits|uint64(coding))
	dst = append(dst, apart...)
	dst = binary.AppendUvarint(dst, uint64(len(plain)))
	return append(dst, plain...)
}

// paddedSize returns the size to which n bytes are padded, as PADMÉ does
// (Nikitin et al., "Reducing Metadata Leakage from Encrypted Files and
// Communication with PURBs", 2019): sizes keep only as many significant bits as
// their logarithm has, so a size tells at most O(log log n) bits and grows by at
// most 12 %.
func paddedSize(n int) int {
	if n < 2 {
		return n
	}
	exponent := bits.Len(uint(n)) - 1
	drop := exponent - bits.Len(uint(exponent))
	if drop <= 0 {
		return n
	}
	mask := 1<<drop - 1
	return (n + mask) &^ mask
}
