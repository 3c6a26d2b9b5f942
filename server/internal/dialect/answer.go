package dialect

import (
	"encoding/json"
	"strconv"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/mcpsaga/mcpsaga/steps"
)

// codeMalformed stands for an error of the client's that cannot be read.
const codeMalformed = -32602

// ReadAnswer reads a client's response to one of our requests, whose ids are
// numbers. The result's form is for the engine to check; an error that is none is
// an error all the same. An id that is not ours comes back as 0, which is nobody's.
func ReadAnswer(raw jsontext.Value) (id uint64, a steps.Answer) {
	var e struct {
		ID     jsontext.Value `json:"id"`
		Result jsontext.Value `json:"result"`
		Error  jsontext.Value `json:"error"`
	}
	if jsonv2.Unmarshal(raw, &e) != nil {
		return 0, a
	}
	id, err := strconv.ParseUint(string(e.ID), 10, 64)
	if err != nil {
		return 0, a
	}
	noError := e.Error == nil || e.Error.Kind() == 'n' && e.Result != nil && e.Result.Kind() != 'n' // some write both
	if noError {
		a.Result = json.RawMessage(e.Result)
		return id, a
	}
	var failure steps.ClientError
	if e.Error.Kind() != '{' || jsonv2.Unmarshal(e.Error, &failure) != nil {
		failure = steps.ClientError{Code: codeMalformed, Message: "the client's error is malformed"}
	}
	a.Error = &failure
	return id, a
}
