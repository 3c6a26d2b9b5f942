package linestream_test

import (
	"encoding/json"
	"io"
	"strings"
	"testing"

	"github.com/sourcegraph/jsonrpc2"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// pipes are an input that ends, and an output.
type pipes struct {
	io.Reader
	strings.Builder
}

func (*pipes) Close() error { return nil }

// What package jsonrpc2 makes of messages by itself is why it is shown so little of them. What is not
// true any more can be left to it.
func TestWhatTheLibraryChanges(t *testing.T) {
	read := func(message string) (jsonrpc2.Request, error) {
		var r jsonrpc2.Request
		err := json.Unmarshal([]byte(message), &r)
		return r, err
	}
	t.Run("a negative id", func(t *testing.T) {
		r, err := read(`{"jsonrpc":"2.0","id":-7,"method":"ping"}`)
		require.NoError(t, err)
		assert.Equal(t, "18446744073709551609", r.ID.String(), "so the response would have it")
	})
	t.Run("an id with escapes", func(t *testing.T) {
		r, err := read(`{"jsonrpc":"2.0","id":"\u00e9<","method":"ping"}`)
		require.NoError(t, err)
		id, err := json.Marshal(r.ID)
		require.NoError(t, err)
		assert.Equal(t, `"é\u003c"`, string(id))
	})
	t.Run("an error without an id", func(t *testing.T) {
		said, err := json.Marshal(&jsonrpc2.Response{Error: &jsonrpc2.Error{Code: jsonrpc2.CodeParseError}})
		require.NoError(t, err)
		assert.Contains(t, string(said), `"id":0`, "rather than null")
	})
	t.Run("parameters", func(t *testing.T) {
		r, err := read(`{"jsonrpc":"2.0","id":1,"method":"x","params":{"b":1.50,"a":"<é\u00e9"}}`)
		require.NoError(t, err)
		assert.Equal(t, `{"a":"\u003céé","b":1.50}`, string(*r.Params))
	})
	t.Run("a name that occurs twice", func(t *testing.T) {
		r, err := read(`{"jsonrpc":"2.0","id":1,"method":"x","params":{"a":1,"a":2}}`)
		require.NoError(t, err)
		assert.Equal(t, `{"a":2}`, string(*r.Params))
	})
	for name, line := range map[string]string{"a fractional id": `{"jsonrpc":"2.0","id":1.5,"method":"x"}`, "a batch": `[{"jsonrpc":"2.0","id":1,"method":"x"}]`} {
		t.Run(name+" ends the connection", func(t *testing.T) {
			// More comes, and is not read.
			next := `{"jsonrpc":"2.0","id":2,"method":"next"}`
			handled := make(chan string, 9)
			c := jsonrpc2.NewConn(t.Context(), jsonrpc2.NewPlainObjectStream(&pipes{Reader: strings.NewReader(line + "\n" + next)}), methods(handled), quietly())
			<-c.DisconnectNotify()
			assert.Empty(t, handled)
		})
	}
	t.Run("nothing is written after the end of the input", func(t *testing.T) {
		p := &pipes{Reader: strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"x"}`)}
		c := jsonrpc2.NewConn(t.Context(), jsonrpc2.NewPlainObjectStream(p), methods(make(chan string, 1)))
		<-c.DisconnectNotify()
		assert.ErrorIs(t, c.Reply(t.Context(), jsonrpc2.ID{Num: 1}, "the answer"), jsonrpc2.ErrClosed)
		assert.Empty(t, p.String())
	})
}
