package fields

import (
	"math"
	"slices"
	"time"
)

// List are the fields of a structure, by number: pointers to them, or nil where there is none. They
// can be of the types string, []byte, [16]byte, uint8, uint32, uint64, int64, float64,
// bool, [time.Time] and [time.Duration].
type List []any

// Append appends the fields that are not zero, and those of [16]byte. It makes room for more bytes
// after them.
func (l List) Append(b []byte, more int) []byte {
	b = slices.Grow(b, l.size()+more)
	for i, field := range l {
		n := uint64(i)
		switch v := field.(type) {
		case *string:
			b = AppendBytes(b, n, *v)
		case *[]byte:
			b = AppendBytes(b, n, *v)
		case *[16]byte:
			b = AppendBytes(b, n, v[:])
		case *uint8:
			b = AppendUint(b, n, uint64(*v))
		case *uint32:
			b = AppendUint(b, n, uint64(*v))
		case *uint64:
			b = AppendUint(b, n, *v)
		case *int64:
			b = AppendUint(b, n, uint64(*v))
		case *float64:
			b = AppendUint(b, n, math.Float64bits(*v))
		case *bool:
			b = AppendBool(b, n, *v)
		case *time.Time:
			b = AppendTime(b, n, *v)
		case *time.Duration:
			b = AppendUint(b, n, uint64(*v))
		}
	}
	return b
}

// size is how many bytes Append appends. Numbers, and the heads of fields, take no more than
// room, unless there are more than a hundred fields.
func (l List) size() int {
	const room = 12
	size := room * len(l)
	for _, field := range l {
		switch v := field.(type) {
		case *string:
			size += len(*v)
		case *[]byte:
			size += len(*v)
		case *[16]byte:
			size += len(v)
		}
	}
	return size
}

// Read reads what Append has written. The fields share memory with b. Those whose numbers are not in
// the list are returned as they are, as a newer program may have written them.
func (l List) Read(b []byte) (unknown []byte, err error) {
	for n, value := range All(b, &err) {
		var field any
		if n < uint64(len(l)) {
			field = l[n]
		}
		switch v := field.(type) {
		case *string:
			*v = string(value)
		case *[]byte:
			*v = value
		case *[16]byte:
			copy(v[:], value)
		case *uint8:
			*v = uint8(value.Uint())
		case *uint32:
			*v = uint32(value.Uint())
		case *uint64:
			*v = value.Uint()
		case *int64:
			*v = int64(value.Uint())
		case *float64:
			*v = math.Float64frombits(value.Uint())
		case *bool:
			*v = value.Bool()
		case *time.Time:
			*v = value.Time()
		case *time.Duration:
			*v = time.Duration(value.Uint())
		default:
			unknown = AppendBytes(unknown, n, value)
		}
	}
	return unknown, err
}
