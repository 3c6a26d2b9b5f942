package durable

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"

	"github.com/fxamacker/cbor/v2"

	"github.com/mcpsaga/mcpsaga/codec"
	"github.com/mcpsaga/mcpsaga/internal/store"
)

// ErrUnreadable is why what a record holds is forgotten: it was sealed with a key that is not enabled, or was
// altered. It is no outage, as the same fails again.
var ErrUnreadable = errors.New("a record cannot be read here")

// format is that of what is sealed. A record that has a newer one is left to newer programs.
const format = 2

// encoder encodes what is sealed. Times are as exact as those of stores.
var encoder, _ = cbor.EncOptions{Time: cbor.TimeRFC3339Nano}.EncMode() // which are options that there are

// decoder decodes it. Strings are read as they were: of those that others choose, such as who calls, some are no UTF-8.
var decoder, _ = cbor.DecOptions{UTF8: cbor.UTF8DecodeInvalid}.DecMode()

// sealer seals what a store keeps of one audience. Each body is bound to the place that it is for:
// a row that was copied, or exchanged for another or an older one, does not open.
type sealer struct {
	keys     func() *codec.Keyset
	audience string
}

// Places of what is sealed in a record, beside the numbers of items, which count from 1 on.
const (
	placeState   = "state"
	placeSummary = "summary"
	placeItem    = "item"
)

func (s *sealer) place(id store.ID, place string, n uint64) []byte {
	b := appendParts([]byte("mcpsaga durable 1"), s.audience, string(id[:]), place)
	return binary.BigEndian.AppendUint64(b, n)
}

func appendParts(b []byte, parts ...string) []byte {
	for _, part := range parts {
		b = append(binary.AppendUvarint(b, uint64(len(part))), part...)
	}
	return b
}

// seal encodes a value, pads it so that its size tells little, and encrypts it.
func (s *sealer) seal(id store.ID, place string, n uint64, v any) ([]byte, error) {
	plain, err := encoder.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("durable: encode: %w", err)
	}
	plain = append(plain, paddingMark)
	// PADMÉ: the longer it is, the more of the last bits of its length are zero.
	exponent := bits.Len(uint(len(plain))) - 1
	mask := 1<<max(0, exponent-bits.Len(uint(exponent))) - 1
	plain = append(plain, make([]byte, -len(plain)&mask)...)
	body, err := s.keys().Encrypt(plain, s.place(id, place, n))
	clear(plain) // it must not linger
	if err != nil {
		return nil, fmt.Errorf("durable: seal: %w", err)
	}
	return body, nil
}

func (s *sealer) open(id store.ID, place string, n uint64, body []byte, v any) error {
	plain, err := s.keys().Decrypt(body, s.place(id, place, n))
	if err != nil {
		return fmt.Errorf("%w: its %s was sealed with a key that is not enabled, or was altered", ErrUnreadable, place)
	}
	plain = bytes.TrimRight(plain, "\x00")
	if len(plain) < 1 || plain[len(plain)-1] != paddingMark {
		return fmt.Errorf("%w: its %s has no padding", ErrUnreadable, place)
	}
	if err := decoder.Unmarshal(plain[:len(plain)-1], v); err != nil {
		return fmt.Errorf("%w: its %s does not decode", ErrUnreadable, place)
	}
	return nil
}

// paddingMark ends what was encoded.
const paddingMark = 0x80

// hashID is an ID that follows from names, for what clients name.
func (s *sealer) hashID(kind string, names ...string) store.ID {
	sum := sha256.Sum256(appendParts(appendParts([]byte("mcpsaga id 1"), kind, s.audience), names...))
	return store.ID(sum[:16])
}

// IDs of what clients and servers name. A task is named by its owner and name; a saga that its client
// drives by its owner and the saga's id. An owner is a principal, or a session of a principal.
func (s *sealer) taskID(principal, name string) store.ID { return s.hashID("task", principal, name) }
func (s *sealer) sagaID(principal string, saga [16]byte) store.ID {
	return s.hashID("saga", principal, string(saga[:]))
}
func (s *sealer) owner(of ...string) store.ID { return s.hashID("owner", of...) }
