package dialect

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/server/internal/wire"
)

func TestIdempotencyKey(t *testing.T) {
	longest := strings.Repeat("k", MaxKey)
	for name, c := range map[string]struct {
		header []string
		meta   string // the member's JSON, or empty
		want   string
		wrong  string
	}{
		"none":                            {},
		"in _meta":                        {meta: `"a-b_c"`, want: "a-b_c"},
		"in the header":                   {header: []string{"a-b_c"}, want: "a-b_c"},
		"in the header, as a string":      {header: []string{` "a-b_c" `}, want: "a-b_c"},
		"in both":                         {header: []string{`"k1"`}, meta: `"k1"`, want: "k1"},
		"an escape in JSON is no part":    {header: []string{"k1"}, meta: `"k\u0031"`, want: "k1"},
		"quotes in _meta are a part":      {meta: `"\"k1\""`, want: `"k1"`},
		"the longest":                     {meta: `"` + longest + `"`, want: longest},
		"all visible":                     {meta: `"!~"`, want: "!~"},
		"two that differ":                 {header: []string{"k1"}, meta: `"k2"`, wrong: "is not the " + KeyMember},
		"too long":                        {meta: `"` + longest + `k"`, wrong: "1 to 255"},
		"too long, in the header":         {header: []string{longest + "k"}, wrong: "1 to 255"},
		"empty":                           {meta: `""`, wrong: "1 to 255"},
		"empty, in the header":            {header: []string{""}, wrong: "1 to 255"},
		"empty, in the header in quotes":  {header: []string{`""`}, wrong: "1 to 255"},
		"null":                            {meta: `null`, wrong: "1 to 255"},
		"a number":                        {meta: `7`, wrong: "1 to 255"},
		"a space":                         {meta: `"a b"`, wrong: "visible"},
		"a line end":                      {meta: `"a\n"`, wrong: "visible"},
		"delete":                          {meta: `"\u007f"`, wrong: "visible"},
		"a letter that is not ASCII":      {meta: `"é"`, wrong: "visible"},
		"a header that is not ASCII":      {header: []string{"é"}, wrong: "ASCII"},
		"a wrong header, a good _meta":    {header: []string{"a b"}, meta: `"k1"`, wrong: "visible"},
		"a wrong _meta, a good header":    {header: []string{"k1"}, meta: `""`, wrong: "1 to 255"},
		"a header twice":                  {header: []string{"k1", "k1"}, wrong: "more than once"},
		"a quote without its other":       {header: []string{`"k1`}, wrong: "quote"},
		"one quote":                       {header: []string{`"`}, wrong: "quote"},
		"an escape in a string":           {header: []string{`"k\"1"`}, wrong: "quote"},
		"a quote in the middle is a part": {header: []string{`k"1`}, want: `k"1`},
	} {
		t.Run(name, func(t *testing.T) {
			x := &Exchange{Message: &wire.Message{Params: []byte(`{"name":"t","_meta":{"other":1}}`)}, Header: http.Header{}}
			if c.meta != "" {
				x.Message.Params = []byte(`{"name":"t","_meta":{"other":1,"` + KeyMember + `":` + c.meta + `}}`)
			}
			if c.header != nil {
				x.Header[http.CanonicalHeaderKey("idempotency-key")] = c.header
			}
			key, rerr := (&Host{TakesKeys: true}).IdempotencyKey(x)
			if c.wrong == "" {
				require.Nil(t, rerr)
				assert.Equal(t, c.want, key)
			} else {
				require.NotNil(t, rerr)
				assert.EqualValues(t, wire.CodeInvalidParams, rerr.Code)
				assert.Equal(t, http.StatusBadRequest, rerr.Status)
				assert.Contains(t, rerr.Message, c.wrong)
				assert.Empty(t, key)
			}
			// Nobody remembers it: nothing is looked at.
			key, rerr = new(Host).IdempotencyKey(x)
			require.Nil(t, rerr)
			assert.Empty(t, key)
		})
	}
}

// On a line and in parameters without any there is nothing to look at.
func TestIdempotencyKeyOfNothing(t *testing.T) {
	for _, params := range []string{"", `{}`, `{"_meta":7}`} {
		key, rerr := (&Host{TakesKeys: true}).IdempotencyKey(&Exchange{Message: &wire.Message{Params: []byte(params)}})
		require.Nil(t, rerr)
		assert.Empty(t, key)
	}
}
