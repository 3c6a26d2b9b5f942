package interop

import (
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestOperationsOutliveTheirServer kills the server between any two messages of an asynchronous call. The
// client asks how far it is, answers, and reads the result, each time at the server that is started then.
func TestOperationsOutliveTheirServer(t *testing.T) {
	killed(t, `{"asyncTools":{}}`, 5, func(t *testing.T, s rawSession, event func() error) {
		const about = `{"token":"0f8fad5b-d9cb-469f-a165-70867728950e"}`
		m, err := s.call("tools/call", `{"name":"test_tool_with_task","arguments":{},"operation":{"token":"0f8fad5b-d9cb-469f-a165-70867728950e"}}`, nil)
		require.NoError(t, err)
		require.Nil(t, m.Error)
		_ = event()
		m, err = s.call("tools/call", `{"name":"test_tool_with_task","arguments":{},"operation":{"token":"0f8fad5b-d9cb-469f-a165-70867728950e"}}`, nil)
		require.NoError(t, err)
		require.NotNil(t, m.Error, "the token is used")
		require.Equal(t, -32602, m.Error.Code)
		deadline, answered := time.Now().Add(4*time.Minute), json.RawMessage(nil)
		for status := ""; status != "completed"; {
			require.Less(t, time.Now(), deadline)
			m, err := s.call("tools/async/status", about, func(m rawMessage) error {
				if m.ID == nil {
					return nil
				}
				if err := event(); err != nil { // it is asked again at the next server
					return err
				}
				answered = m.ID
				if err := s.answer(m.ID, `{"_operation":{"token":"0f8fad5b-d9cb-469f-a165-70867728950e"},"action":"accept","content":{"name":"Jo"}}`); err != nil {
					return err
				}
				return event()
			})
			if errors.Is(err, errDied) {
				continue
			}
			require.NoError(t, err)
			var now struct{ Status string }
			require.NoError(t, json.Unmarshal(m.Result, &now), "%s %v", m.Result, m.Error)
			require.Contains(t, []string{"submitted", "working", "input_required", "completed"}, now.Status)
			status = now.Status
			time.Sleep(20 * time.Millisecond)
		}
		require.NotEmpty(t, answered)
		for range 2 { // the result can be read any number of times
			_ = event()
			m, err = s.call("tools/async/result", about, nil)
			require.NoError(t, err)
			require.Contains(t, string(m.Result), "Hello, Jo!", "%v", m.Error)
		}
	})
}
