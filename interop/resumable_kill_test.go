package interop

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestResumedWhileServersDie kills the server between any two messages of a resumable request.
// The client looks how far it is, and resumes it at the server that is started then.
func TestResumedWhileServersDie(t *testing.T) {
	killed(t, `{"resumableRequests":{}}`, 7, func(t *testing.T, s rawSession, event func() error) {
		var policy struct {
			RequestID   json.RawMessage `json:"requestId"`
			ResumeToken string          `json:"resumeToken"`
		}
		heard := func(m rawMessage) error {
			if m.Method == "notifications/requests/resumePolicy" {
				require.NoError(t, json.Unmarshal(m.Params, &policy))
			}
			return answering(s, event)(m)
		}
		s.number(40)
		m, err := s.call("tools/call", `{"name":"confirm_delete","arguments":{"filename":"a"}}`, heard)
		require.NotEmpty(t, policy.ResumeToken, "%v", err)
		deadline := time.Now().Add(4 * time.Minute)
		for ends := 0; ends < 2; {
			require.Less(t, time.Now(), deadline)
			if err == nil {
				require.Equal(t, "40", string(m.ID))
				require.Contains(t, string(m.Result), "a would be deleted.", "%v", m.Error)
				ends++
				_ = event()
			} else {
				require.ErrorIs(t, err, errDied)
			}
			m, err = s.call("requests/getStatus", fmt.Sprintf(`{"requestId":%s,"resumeToken":%q}`, policy.RequestID, policy.ResumeToken), nil)
			require.NoError(t, err)
			require.Contains(t, string(m.Result), `"hasPendingMessage":`, "%v", m.Error)
			if event() != nil {
				err = errors.Join(errDied)
				continue
			}
			s.number(40)
			m, err = s.call("requests/resume", fmt.Sprintf(`{"resumeToken":%q}`, policy.ResumeToken), heard)
		}
	})
}
