package records

import (
	"encoding/binary"
	"errors"
	"math"
	"time"
)

// The fields of a saga and of a claim are written one after the other: its number, its length,
// its bytes. Empty ones are left out, and one whose number is not known is ignored, as a newer
// program may have written it. A number is never given to something else.

func (s *Saga) fields() [26]any {
	return [...]any{
		1: &s.Target.Name, &s.Target.Revision, &s.ID, &s.Principal, &s.Began, // 5
		&s.At, &s.From, &s.Token, &s.Purpose, &s.Effects, // 10
		&s.Expires, &s.Undoable, &s.Keep, &s.Digest, &s.Response, // 15
		&s.How, &s.Report, &s.Ended, &s.Attempts, &s.Failing, // 20
		&s.LastError, &s.GivenUp, &s.UndoNow, claimField: nil, claimField + 1: &s.Page,
	}
}

func (c *Claim) fields() [8]any {
	return [...]any{1: &c.From, &c.Digest, &c.How, &c.Nonce, &c.Until, &c.Request, &c.Lease}
}

// claimField is the number of a saga's claim, within which its fields are.
const claimField = 24

// AppendBinary implements [encoding.BinaryAppender].
func (s *Saga) AppendBinary(b []byte) ([]byte, error) {
	fields := s.fields()
	b = appendFields(b, fields[:])
	if s.Claim != nil {
		fields := s.Claim.fields()
		b = appendField(b, claimField, appendFields(nil, fields[:]))
	}
	return b, nil
}

// UnmarshalBinary implements [encoding.BinaryUnmarshaler]. Parts of s stay in the memory of b.
func (s *Saga) UnmarshalBinary(b []byte) error {
	fields := s.fields()
	return readFields(b, fields[:], func(number uint64, value []byte) error {
		if number != claimField {
			return nil
		}
		s.Claim = new(Claim)
		fields := s.Claim.fields()
		return readFields(value, fields[:], func(uint64, []byte) error { return nil })
	})
}

func appendField[T string | []byte](b []byte, number int, value T) []byte {
	b = binary.AppendUvarint(b, uint64(number))
	b = binary.AppendUvarint(b, uint64(len(value)))
	return append(b, value...)
}

// appendFields appends the fields that are not empty.
func appendFields(b []byte, fields []any) []byte {
	var room [binary.MaxVarintLen64 + 16]byte
	for number, field := range fields {
		var value []byte
		switch v := field.(type) {
		case *string:
			if *v != "" {
				b = appendField(b, number, *v)
			}
		case *How:
			if *v != "" {
				b = appendField(b, number, string(*v))
			}
		case *[]byte:
			value = *v
		case *[]string:
			for _, text := range *v {
				b = appendField(b, number, text)
			}
		case *uint32:
			if *v != 0 {
				value = binary.AppendUvarint(room[:0], uint64(*v))
			}
		case *int:
			if *v != 0 {
				value = binary.AppendVarint(room[:0], int64(*v))
			}
		case *time.Duration:
			if *v != 0 {
				value = binary.AppendVarint(room[:0], int64(*v))
			}
		case *bool:
			if *v {
				value = append(room[:0], 1)
			}
		case *time.Time:
			if !v.IsZero() {
				value = binary.AppendVarint(room[:0], v.Unix())
				value = binary.AppendUvarint(value, uint64(v.Nanosecond()))
			}
		}
		if len(value) > 0 {
			b = appendField(b, number, value)
		}
	}
	return b
}

var errFields = errors.New("its fields do not decode")

// readFields reads fields, and hands those that are not in the list to other.
func readFields(b []byte, fields []any, other func(number uint64, value []byte) error) error {
	for len(b) > 0 {
		number, n := binary.Uvarint(b)
		length, m := binary.Uvarint(b[max(n, 0):])
		if n <= 0 || m <= 0 || length > uint64(len(b)-n-m) {
			return errFields
		}
		value := b[n+m:][:length:length]
		b = b[n+m+int(length):]
		if number >= uint64(len(fields)) || fields[number] == nil {
			if err := other(number, value); err != nil {
				return err
			}
			continue
		}
		used := len(value)
		switch v := fields[number].(type) {
		case *string:
			*v = string(value)
		case *How:
			*v = How(value)
		case *[]byte:
			*v = value
		case *[]string:
			*v = append(*v, string(value))
		case *uint32:
			var x uint64
			if x, used = binary.Uvarint(value); x > math.MaxUint32 {
				return errFields
			}
			*v = uint32(x)
		case *int:
			var x int64
			x, used = binary.Varint(value)
			*v = int(x)
		case *time.Duration:
			var x int64
			x, used = binary.Varint(value)
			*v = time.Duration(x)
		case *bool:
			*v = len(value) == 1 && value[0] == 1
		case *time.Time:
			seconds, n := binary.Varint(value)
			nanos, m := binary.Uvarint(value[max(n, 0):])
			used = n + m
			*v = time.Unix(seconds, int64(nanos)).UTC()
			if n <= 0 || m <= 0 {
				return errFields
			}
		}
		if used != len(value) {
			return errFields
		}
	}
	return nil
}
