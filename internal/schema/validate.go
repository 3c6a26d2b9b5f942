package schema

import (
	"encoding/json"
	"errors"
	"strings"

	jsonv2 "github.com/go-json-experiment/json"
)

// Validate checks JSON text against the schema. The error is for the caller.
func (s *Schema) Validate(raw json.RawMessage) error {
	if s.plain.accepts(raw) {
		return nil
	}
	var v any
	// Strict: names that occur twice and invalid UTF-8 are refused, so that no
	// two readers of the same arguments see different ones.
	if err := jsonv2.Unmarshal(raw, &v); err != nil {
		return errors.New("they are not valid JSON, or a name occurs twice")
	}
	if err := s.resolved.Validate(v); err != nil {
		return brief(err)
	}
	return brief(s.formats.check(v))
}

// maxComplaint is how long a complaint about a value may be, in bytes.
const maxComplaint = 500

// brief shortens the library's complaints in the middle: they show the whole value,
// between where it is and what is wrong with it.
func brief(err error) error {
	if err == nil || len(err.Error()) <= maxComplaint {
		return err
	}
	text := err.Error()
	text = text[:maxComplaint/2] + " … " + text[len(text)-maxComplaint/2:]
	return errors.New(strings.ToValidUTF8(text, ""))
}
