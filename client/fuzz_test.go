package client

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
)

func FuzzParseResponse(f *testing.F) {
	for _, seed := range []string{
		`{"jsonrpc":"2.0","id":1,"result":{}}`,
		`{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"x","data":[]}}`,
		`{"jsonrpc":"2.0","id":1,"result":null,"error":null}`,
		`[]`, ``, `{"id":1,"id":1}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		result, err := parseResponse(body, 1)
		if err == nil {
			require.True(t, json.Valid(result))
			return
		}
		var refused *Error
		var wrong *ProtocolError
		require.True(t, errors.As(err, &refused) || errors.As(err, &wrong), "%T", err)
	})
}

func FuzzParseTurn(f *testing.F) {
	for _, seed := range []string{
		`{"state":"suspended","sagaToken":"t","steps":[{"type":"sampling","stepId":"s","params":{}}]}`,
		`{"content":[{"type":"text","text":"x"},{"type":"image"},7],"structuredContent":{"a":1},"isError":true}`,
		`{"state":"suspended"}`, `null`, `{"content":null}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		turn, err := sagaDialect{}.parse(body, Limits{}.withDefaults())
		if err != nil {
			var wrong *ProtocolError
			require.ErrorAs(t, err, &wrong)
			return
		}
		if turn.result != nil {
			if result, err := parseResult(turn.result, Limits{}.withDefaults()); err == nil {
				_ = result.Content.Text()
			} else {
				var wrong *ProtocolError
				require.ErrorAs(t, err, &wrong)
			}
			return
		}
		p := Position{Version: positionVersion, Dialect: "saga", Tool: "x"}
		if p.suspended(turn, Limits{}.withDefaults()) == nil {
			require.Len(t, p.Pending(), len(turn.steps))
			require.NoError(t, p.check())
			saved, err := json.Marshal(p)
			require.NoError(t, err)
			require.NoError(t, json.Unmarshal(saved, new(Position)))
		}
	})
}
