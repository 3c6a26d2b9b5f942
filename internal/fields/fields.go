// Package fields encodes small structures compactly, field by field: a number, a length, and
// so many bytes. A reader passes over what it does not know, so that programs of several
// versions can work on the same data; the zero value of a field takes no room.
//
// Write with the Append functions, and read with [All].
package fields

import (
	"encoding/binary"
	"errors"
	"iter"
	"time"
)

// AppendBytes appends a field unless v is empty.
func AppendBytes[T ~string | ~[]byte](b []byte, field uint64, v T) []byte {
	if len(v) == 0 {
		return b
	}
	b = binary.AppendUvarint(b, field)
	b = binary.AppendUvarint(b, uint64(len(v)))
	return append(b, v...)
}

// AppendUint appends a field unless v is 0.
func AppendUint(b []byte, field, v uint64) []byte {
	if v == 0 {
		return b
	}
	b, at := appendHead(b, field)
	return closed(binary.AppendUvarint(b, v), at)
}

// AppendBool appends a field if v holds.
func AppendBool(b []byte, field uint64, v bool) []byte {
	if !v {
		return b
	}
	return AppendUint(b, field, 1)
}

// AppendTime appends a field, to the microsecond, unless t is zero.
func AppendTime(b []byte, field uint64, t time.Time) []byte {
	if t.IsZero() {
		return b
	}
	b, at := appendHead(b, field)
	return closed(binary.AppendVarint(b, t.UnixMicro()), at)
}

// appendHead begins a field whose length takes one byte, at at. It is written by closed.
func appendHead(b []byte, field uint64) (_ []byte, at int) {
	b = append(binary.AppendUvarint(b, field), 0)
	return b, len(b) - 1
}

func closed(b []byte, at int) []byte {
	b[at] = byte(len(b) - at - 1)
	return b
}

// Value is what a field holds. It shares memory with what was read.
type Value []byte

// Uint returns the number that [AppendUint] has written.
func (v Value) Uint() uint64 {
	n, _ := binary.Uvarint(v)
	return n
}

// Bool returns what [AppendBool] has written.
func (v Value) Bool() bool { return v.Uint() != 0 }

// Time returns what [AppendTime] has written.
func (v Value) Time() time.Time {
	n, size := binary.Varint(v)
	if size <= 0 {
		return time.Time{}
	}
	return time.UnixMicro(n).UTC()
}

// ErrTruncated: the data end in the middle of a field.
var ErrTruncated = errors.New("fields: the data end too early")

// All yields the fields of b in their order. If b is damaged, [ErrTruncated] is what *err is
// when it ends.
func All(b []byte, err *error) iter.Seq2[uint64, Value] {
	return func(yield func(uint64, Value) bool) {
		for len(b) > 0 {
			field, n := binary.Uvarint(b)
			if n <= 0 {
				*err = ErrTruncated
				return
			}
			length, size := binary.Uvarint(b[n:])
			if size <= 0 || length > uint64(len(b)-n-size) {
				*err = ErrTruncated
				return
			}
			b = b[n+size:]
			if !yield(field, Value(b[:length:length])) {
				return
			}
			b = b[length:]
		}
	}
}
