package handshake

import (
	"crypto/rand"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/internal/sessionid"
	"github.com/mcpsaga/mcpsaga/internal/tokens"
	"github.com/mcpsaga/mcpsaga/server/internal/dialect"
	"github.com/mcpsaga/mcpsaga/server/internal/wire"
)

// A resume token that is longer than any that is made is not looked at, whichever method has it.
func TestLongResumeTokens(t *testing.T) {
	d := replica(t, newKeyset(t))
	d.Tasks = newScripted()
	for _, method := range []string{resumeMethod, statusMethod} {
		for pad, want := range map[int]error{0: nil, maxResumeToken: errResume} {
			c := &call{handshake: d, peer: &peer{Terms: sessionid.Terms{Resumable: true}}, Exchange: new(dialect.Exchange)}
			noise := "" // which cannot be compressed
			for len(noise) < 2*pad {
				noise += rand.Text()
			}
			state := `{"t":"task","i":"7","noise":"` + noise + `"}`
			token, err := d.Turns.Codec.Seal(c.resumeBinding(), d.Turns.Now(), &tokens.Contents{State: []byte(state)})
			require.NoError(t, err)
			params, err := wire.Marshal(map[string]any{"requestId": 7, "resumeToken": token})
			require.NoError(t, err)
			c.Message = &wire.Message{ID: []byte("7"), Method: method, Params: []byte(params)}
			_, err = c.readResume()
			assert.Equal(t, want, err, "%s, %d bytes", method, len(token))
		}
	}
}
