package client

import (
	stdjson "encoding/json"
	"errors"

	"github.com/go-json-experiment/json"
)

// read decodes what a server sent. Its errors are *ProtocolError and say what was
// being read.
func read(raw stdjson.RawMessage, into any, what string) error {
	err := json.Unmarshal(raw, into)
	var much *LimitError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &much): // without where in the JSON
		return tooMuch(much.Limit, much.What)
	}
	return &ProtocolError{Reason: what + " is malformed", Err: err}
}
