package tasks

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"

	"github.com/mcpsaga/mcpsaga/steps"
)

// A client, or what is between it and a server, may send an answer twice: a task knows its last
// ones again.

// mostGiven is how many answers a task knows again, and givenSize how long what it keeps of one is.
const (
	mostGiven = 8
	givenSize = 16
)

// Sum is what is kept of an answer, whatever question it is to.
func Sum(a steps.Answer) (sum [8]byte) {
	h := sha256.New()
	h.Write(a.Result)
	if a.Error != nil {
		h.Write([]byte{0})
		_ = json.NewEncoder(h).Encode(a.Error)
	}
	copy(sum[:], h.Sum(nil))
	return sum
}

// appendGiven adds an answer, and drops the oldest if there are many.
func appendGiven(b []byte, g Given) []byte {
	b = binary.BigEndian.AppendUint64(bytes.Clone(b), g.Number)
	b = append(b, g.Sum[:]...)
	return b[max(0, len(b)-mostGiven*givenSize):]
}

func decodeGiven(b []byte) (list []Given) {
	for ; len(b) >= givenSize; b = b[givenSize:] {
		list = append(list, Given{binary.BigEndian.Uint64(b), [8]byte(b[8:])})
	}
	return list
}
