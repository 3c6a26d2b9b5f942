package tokens

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"time"
)

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
// The times come first because they are checked before all else. The body needs
// no length: it ends at the last byte of the whole that is not zero.
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

// errLayout is deliberately vague: an authentic token that does not decode was
// written by another program, and its bytes are nothing for a log.
var errLayout = errors.New("the contents do not decode: another or a newer program sealed them")

// appendSpan appends a duration in seconds. Whole minutes take half the room.
func appendSpan(dst []byte, seconds uint64) []byte {
	if seconds%60 == 0 {
		return binary.AppendUvarint(dst, seconds/60<<1|1)
	}
	return binary.AppendUvarint(dst, seconds<<1)
}

// appendClaims appends what comes before the parts and the body. Claims must have been
// checked.
func appendClaims(dst []byte, coding byte, c *Claims, secret []byte) []byte {
	at := len(dst)
	dst = append(dst, coding)
	issued := c.IssuedAt.Unix()
	dst = binary.BigEndian.AppendUint32(dst, uint32(issued))
	dst = appendSpan(dst, uint64(c.ExpiresAt.Unix()-issued))
	if !c.Deadline.IsZero() {
		dst[at] |= flagDeadline
		dst = appendSpan(dst, uint64(c.Deadline.Unix()-issued))
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

func (r *reader) section(limit int) []byte { return r.bytes(r.uvarint(uint64(limit))) }

// time reads a span and returns the time that lies so far after issued.
func (r *reader) time(issued int64) time.Time {
	v := r.uvarint(math.MaxUint32 << 1)
	if v&1 != 0 {
		v = v >> 1 * 60
	} else {
		v >>= 1
	}
	if at := issued + int64(v); at <= math.MaxUint32 {
		return time.Unix(at, 0).UTC()
	}
	r.bad = true
	return time.Time{}
}

// opened is a decoded plaintext. Its slices are parts of the plaintext.
type opened struct {
	claims  Claims
	coding  byte
	secret  []byte
	apart   []byte // coded as apartCoding says
	plain   []byte
	body    []byte
	padding int
	rest    reader
	flags   byte

	apartCoding byte
}

// decodeTimes reads the front of a plaintext, which is all that is needed to
// decide whether the token is still good.
func (o *opened) decodeTimes(plain []byte) error {
	r := reader{rest: plain}
	head := r.bytes(5)
	if r.bad {
		return errLayout
	}
	o.flags, o.coding = head[0], head[0]&codingMask
	issued := int64(binary.BigEndian.Uint32(head[1:]))
	o.claims.IssuedAt = time.Unix(issued, 0).UTC()
	o.claims.ExpiresAt = r.time(issued)
	if o.flags&flagDeadline != 0 {
		o.claims.Deadline = r.time(issued)
	}
	o.rest = r
	if r.bad {
		return errLayout
	}
	return nil
}

// decodeRest reads what decodeTimes left.
func (o *opened) decodeRest(most int) error {
	r, c := o.rest, &o.claims
	copy(c.ID[:], r.bytes(uint64(len(c.ID))))
	c.Turn = uint32(r.uvarint(math.MaxUint32))
	c.Revision = uint32(r.uvarint(math.MaxUint32))
	c.Tool = string(r.section(MaxTool))
	for _, part := range [...]struct {
		flag  byte
		to    *[]byte
		limit int
	}{{flagRequest, &c.Request, MaxRequest}, {flagTrace, &c.Trace, MaxTrace}, {flagSecret, &o.secret, most}} {
		if o.flags&part.flag != 0 {
			*part.to = r.section(part.limit)
			// An empty part is written as none.
			r.bad = r.bad || len(*part.to) == 0
		}
	}
	if o.flags&flagParts != 0 {
		size := r.uvarint(uint64(most)<<codingBits | codingMask)
		o.apartCoding, o.apart = byte(size&codingMask), r.bytes(size>>codingBits)
		o.plain = r.section(most)
		r.bad = r.bad || len(o.apart)+len(o.plain) == 0
	}
	if r.bad {
		return errLayout
	}
	o.body = bytes.TrimRight(r.rest, "\x00")
	if len(o.body) == 0 || o.body[len(o.body)-1] != paddingMark {
		return errLayout
	}
	o.body = o.body[:len(o.body)-1]
	o.padding = len(r.rest) - len(o.body)
	return nil
}
