package dialect

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/mcpsaga/mcpsaga/steps"
)

func TestReadAnswer(t *testing.T) {
	malformed := &steps.ClientError{Code: codeMalformed, Message: "the client's error is malformed"}
	for raw, want := range map[string]struct {
		id     uint64
		result string
		err    *steps.ClientError
	}{
		`{"id":7,"result":{"a":1}}`:                               {7, `{"a":1}`, nil},
		`{"id":7,"error":{"code":-1,"message":"no"}}`:             {7, "", &steps.ClientError{Code: -1, Message: "no"}},
		`{"id":7,"error":{"code":"x"}}`:                           {7, "", malformed},
		`{"id":7,"error":7}`:                                      {7, "", malformed},
		`{"id":7,"result":{"a":1},"error":null}`:                  {7, `{"a":1}`, nil}, // as some libraries write it
		`{"id":7,"error":null}`:                                   {7, "", malformed},
		`{"id":7,"result":null,"error":null}`:                     {7, "", malformed},
		`{"id":7,"result":null,"error":{"code":1,"message":"m"}}`: {7, "", &steps.ClientError{Code: 1, Message: "m"}},
		`{"id":"7","result":{}}`:                                  {0, "", nil},
		`{"id":-7,"result":{}}`:                                   {0, "", nil},
		`{"id":7.0,"result":{}}`:                                  {0, "", nil},
		`{"id":99999999999999999999,"result":{}}`:                 {0, "", nil},
	} {
		id, a := ReadAnswer([]byte(raw))
		assert.Equal(t, want.id, id, raw)
		if want.id != 0 {
			assert.Equal(t, want.result, string(a.Result), raw)
			assert.Equal(t, want.err, a.Error, raw)
		}
	}
}
