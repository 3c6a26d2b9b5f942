package wire

import (
	"bytes"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/mcpsaga/mcpsaga/internal/jsonview"
)

// maxBatch bounds the messages in one batch.
const maxBatch = 64

// BatchText is the text of the error that a batch is where there are none.
const BatchText = "batches are not supported: send one message at a time"

// IsBatch reports whether raw is an array.
func IsBatch(raw []byte) bool {
	first := bytes.TrimLeft(raw, " \t\r\n")
	return len(first) > 0 && first[0] == '['
}

// SplitBatch returns the messages of a batch (JSON-RPC 2.0, section 6). They are not
// looked into: each is parsed by itself, so that one that is none spoils no other.
func SplitBatch(raw []byte) ([]jsontext.Value, *Error) {
	if jsonview.Deeper(raw, MaxNesting+1) {
		return nil, NewError(CodeInvalidRequest, DeepText)
	}
	broken := NewError(CodeParseError, "the batch is not valid JSON")
	dec := jsontext.NewDecoder(bytes.NewReader(raw))
	if _, err := dec.ReadToken(); err != nil {
		return nil, broken
	}
	var list []jsontext.Value
	for dec.PeekKind() != ']' {
		v, err := dec.ReadValue()
		if err != nil {
			return nil, broken
		}
		if list = append(list, v.Clone()); len(list) > maxBatch {
			return nil, NewError(CodeInvalidRequest, "the batch has too many messages")
		}
	}
	if _, err := dec.ReadToken(); err != nil || len(bytes.TrimSpace(raw[dec.InputOffset():])) > 0 {
		return nil, broken
	}
	if len(list) == 0 {
		return nil, NewError(CodeInvalidRequest, "the batch is empty")
	}
	return list, nil
}
