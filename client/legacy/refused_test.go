package legacy_test

import (
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/client"
	"github.com/mcpsaga/mcpsaga/client/legacy"
)

// The SDK has codes of its own for lost connections. A server that answers with one has answered, and keeps its session.
func TestCodesOfTheSDK(t *testing.T) {
	t.Parallel()
	for name, transport := range transports(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			again := 0
			c := client.New(transport, client.Options{Protocol: "2025-11-25", Sessions: legacy.Open, OnRetry: func(error) { again++ }})
			defer c.Close()
			for code := -32006; code <= -32000; code++ {
				_, err := c.GetPrompt(t.Context(), "refused", map[string]string{"code": strconv.Itoa(code)}, client.Handlers{})
				var refused *client.Error
				require.ErrorAs(t, err, &refused, "%d", code)
				assert.Equal(t, "wants a licence", refused.Message)
				if code != -32003 && code != -32004 { // which the SDK does not tell from each other
					assert.EqualValues(t, code, refused.Code)
					assert.JSONEq(t, `"here"`, string(refused.Data))
				}
			}
			assert.Zero(t, again)
		})
	}
}
