package tokens

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"strings"
	"time"
)

// OpenAnyTime authenticates a token, checks its times against now, and returns what it
// holds. Every failure is a *[Rejected] error with one and the same message;
// its Reason says why, for logs.
//
// An authentic token that is refused only for its time is returned together with
// that rejection. If it has expired, or is past its deadline, it must not be resumed;
// how late it may be for anything else is for the caller to decide. If it is of the future
// ([ReasonNotYetValid]), a clock is or was wrong, and the token is good as soon as the clocks agree.
//
// It does not check tool, revision or request, of which it knows nothing: that
// is the caller's part. See [Reject].
func (c *Codec) OpenAnyTime(b Binding, now time.Time, token string) (x Contents, untimely *Rejected, err error) {
	var o opened
	untimely, rejected := c.open(&o, b, now, token)
	if rejected != nil {
		return Contents{}, nil, rejected
	}
	return o.Contents, untimely, nil
}

var (
	// errAuthentication does not repeat Tink's message, which says less.
	errAuthentication = errors.New("does not decrypt: altered, or made for another audience, purpose, tenant or principal")
	// errAlphabet deliberately does not quote the token.
	errAlphabet = errors.New("not unpadded base64url in its canonical spelling")
	// errLayout is deliberately vague: an authentic token that does not decode was
	// written by another program, and its bytes are nothing for a log.
	errLayout = errors.New("the contents do not decode: another or a newer program sealed them")
)

// opened is what was found in a token, as far as it could be read. Claims, Plain and Secret
// are parts of the plaintext.
type opened struct {
	Contents
	coding, apartCoding byte
	body, apart         []byte // State and Apart as they were coded
	padding             int    // zero if the layout did not decode
}

// open does the work of OpenAnyTime. Up to the decryption, that does not depend on
// anything but the token's length.
func (c *Codec) open(o *opened, b Binding, now time.Time, token string) (untimely, rejected *Rejected) {
	if len(token) > c.options.MaxToken {
		return nil, Reject(ReasonTooLong, "%d characters exceed the limit of %d", len(token), c.options.MaxToken)
	}
	buf, _ := c.buffers.Get().(*buffers)
	if buf == nil {
		buf = new(buffers)
	}
	defer c.release(buf)
	sealed, id, rejected := decodeToken(buf, token)
	if rejected != nil {
		return nil, rejected
	}
	keys := c.keys.Load()
	if info, ok := keys.Key(id); !ok {
		return nil, Reject(ReasonUnknownKey, "key %08x is not in the keyset", id)
	} else if !info.Enabled {
		return nil, Reject(ReasonUnknownKey, "key %08x is disabled", id)
	}
	buf.associated = b.associated(buf.associated[:0], version, c.options.Audience)
	plain, err := keys.aead.Decrypt(sealed, buf.associated)
	if err != nil {
		return nil, &Rejected{ReasonAuthentication, errAuthentication}
	}
	limit := c.options.MaxPlaintext
	if !o.decode(plain, limit) {
		return nil, &Rejected{ReasonFormat, errLayout}
	}
	untimely = c.checkTimes(&o.Claims, now)
	limit -= len(o.Secret) + len(o.Plain)
	if len(o.apart) > 0 {
		if o.Apart, rejected = c.zstd.decode(buf, o.apartCoding, o.apart, limit); rejected != nil {
			return untimely, rejected
		}
		limit -= len(o.Apart)
	}
	o.State, rejected = c.zstd.decode(buf, o.coding, o.body, limit)
	return untimely, rejected
}

// decodeToken returns the sealed part of a token, in the memory of b, and the id of the key
// that sealed it.
func decodeToken(b *buffers, token string) (sealed []byte, key uint32, rejected *Rejected) {
	switch {
	case token == "":
		return nil, 0, Reject(ReasonMalformed, "the token is empty")
	case token[0] != version:
		return nil, 0, Reject(ReasonVersion, "format %q is not known: this program reads format %q", token[0], version)
	case strings.ContainsAny(token, "\r\n"):
		// The decoder of the standard library skips line breaks even when strict.
		return nil, 0, &Rejected{ReasonMalformed, errAlphabet}
	}
	b.text = append(b.text[:0], token[1:]...)
	sealed, err := encoding.AppendDecode(b.sealed[:0], b.text)
	if err != nil {
		return nil, 0, &Rejected{ReasonMalformed, errAlphabet}
	}
	b.sealed = sealed
	switch {
	case len(sealed) < minSealed:
		return nil, 0, Reject(ReasonMalformed, "%d characters are too few", len(token))
	case sealed[0] != tinkPrefix:
		return sealed, 0, Reject(ReasonUnknownKey, "the token does not begin with a key id")
	}
	return sealed, binary.BigEndian.Uint32(sealed[1:keyPrefixSize]), nil
}

// checkTimes refuses tokens of the future and of the past.
func (c *Codec) checkTimes(claims *Claims, now time.Time) *Rejected {
	skew := c.options.Skew
	switch {
	case claims.IssuedAt.After(now.Add(skew)):
		return Reject(ReasonNotYetValid, "issued at %v, which is in the future", claims.IssuedAt)
	case !claims.Deadline.IsZero() && !now.Before(claims.Deadline.Add(skew)):
		return Reject(ReasonDeadline, "the saga's deadline was %v", claims.Deadline)
	case !now.Before(claims.ExpiresAt.Add(skew)):
		return Reject(ReasonExpired, "expired at %v", claims.ExpiresAt)
	}
	return nil
}

// reader takes fields off the front of a plaintext. After a failure bad is set
// and every field is empty.
type reader struct {
	rest []byte
	bad  bool
}

func (r *reader) bytes(n uint64) []byte {
	if r.bad || n > uint64(len(r.rest)) {
		r.bad = true
		return nil
	}
	b := r.rest[:n:n]
	r.rest = r.rest[n:]
	return b
}

func (r *reader) uvarint(limit uint64) uint64 {
	v, n := binary.Uvarint(r.rest)
	if r.bad || n <= 0 || v > limit {
		r.bad = true
		return 0
	}
	r.rest = r.rest[n:]
	return v
}

// decode reads a plaintext, whose State and Apart may be no longer than most, and reports
// whether it is one.
func (o *opened) decode(plain []byte, most int) bool {
	r, c := reader{rest: plain}, &o.Claims
	head := r.bytes(5)
	if r.bad {
		return false
	}
	flags := head[0]
	o.coding = flags & codingMask
	issued := int64(binary.BigEndian.Uint32(head[1:]))
	c.IssuedAt = time.Unix(issued, 0).UTC()
	for _, t := range [...]*time.Time{&c.ExpiresAt, &c.Deadline} {
		if t == &c.Deadline && flags&flagDeadline == 0 {
			break
		}
		span := r.uvarint(math.MaxUint32 << 1)
		if span&1 != 0 {
			span = span >> 1 * 60
		} else {
			span >>= 1
		}
		at := issued + int64(span)
		r.bad = r.bad || at > math.MaxUint32
		*t = time.Unix(at, 0).UTC()
	}
	copy(c.ID[:], r.bytes(uint64(len(c.ID))))
	c.Turn = uint32(r.uvarint(math.MaxUint32))
	c.Revision = uint32(r.uvarint(math.MaxUint32))
	c.Tool = string(r.bytes(r.uvarint(MaxTool)))
	for _, part := range [...]struct {
		flag  byte
		to    *[]byte
		limit int
	}{{flagRequest, &c.Request, MaxRequest}, {flagTrace, &c.Trace, MaxTrace}, {flagSecret, &o.Secret, most}} {
		if flags&part.flag != 0 {
			*part.to = r.bytes(r.uvarint(uint64(part.limit)))
			// An empty part is written as none.
			r.bad = r.bad || len(*part.to) == 0
		}
	}
	if flags&flagParts != 0 {
		size := r.uvarint(uint64(most)<<codingBits | codingMask)
		o.apartCoding, o.apart = byte(size&codingMask), r.bytes(size>>codingBits)
		o.Plain = r.bytes(r.uvarint(uint64(most)))
		r.bad = r.bad || len(o.apart)+len(o.Plain) == 0
	}
	body := bytes.TrimRight(r.rest, "\x00")
	if r.bad || len(body) == 0 || body[len(body)-1] != paddingMark {
		return false
	}
	o.body = body[:len(body)-1]
	o.padding = len(r.rest) - len(o.body)
	return true
}
