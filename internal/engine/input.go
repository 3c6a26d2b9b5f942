package engine

import (
	"encoding/json"
	"reflect"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/mcpsaga/mcpsaga/internal/schema"
)

// inputSchema returns the schema of a tool's arguments: the one that the author
// gave, in one of two forms, or the one that follows from the type and its tags. An
// author's own schema must say what the tags say, which would else be ignored. It
// returns nil if there is a problem.
func (t *Program) inputSchema(p *Problems, given *jsonschema.Schema, raw json.RawMessage, args reflect.Type) *jsonschema.Schema {
	if given != nil && raw != nil {
		p.Add(nil, "it has both an InputSchema and a RawInputSchema")
		return nil
	}
	if raw != nil {
		var err error
		if given, err = schema.Parse(raw); err != nil {
			p.Add(err, "the RawInputSchema is not usable")
			return nil
		}
	}
	if given != nil && !schema.Tagged(args) {
		t.decoding = schema.JSONOptions
		return given
	}
	s, decoding, err := schema.Infer(args, given)
	if err != nil {
		p.Add(err, "no input schema can be made from the type %v of the arguments", args)
		return nil
	}
	t.decoding = decoding
	if given != nil {
		return given
	}
	return s
}

// decodeArguments decodes arguments that fit the tool's schema.
func (t *Program) decodeArguments(raw json.RawMessage, into any) error {
	if err := schema.Decode(raw, into, t.decoding); err != nil {
		return &ArgumentsError{t.Name, err}
	}
	return nil
}
