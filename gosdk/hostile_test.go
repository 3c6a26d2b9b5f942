package gosdk_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/gosdk"
	"github.com/mcpsaga/mcpsaga/internal/hostile"
)

// What is far too large to be remembered is refused, and is no fault of the server's.
func TestLargeRequestsAreNoFaultOfTheServer(t *testing.T) {
	h := mount(t, gosdk.Options{}, hostile.Definitions()...)
	target, err := hostile.NewTarget(gosdk.NewHTTPHandler(func(*http.Request) *mcp.Server { return h.sdk }, nil))
	require.NoError(t, err)
	defer func() {
		for s := range h.sdk.Sessions() {
			s.Close()
		}
	}()
	large := func(name string) bool {
		return strings.HasSuffix(name, ", text that compresses badly") &&
			(strings.Contains(name, "ask.arguments.any") || strings.Contains(name, "form.content.text"))
	}
	sent := 0
	for q := range target.Requests(300<<10, large) {
		sent++
		_, _, err := target.Send(q)
		assert.NoError(t, err)
		assert.NotContains(t, h.log.String(), "ERROR", q.Name)
	}
	assert.Greater(t, sent, 4)
}
