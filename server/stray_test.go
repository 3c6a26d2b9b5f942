package server_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/mcpsaga/mcpsaga/server"
)

// A response to what was never asked is refused, whatever its id.
func TestStrayResponsesAreRefused(t *testing.T) {
	for name, r := range map[string]*rig{
		"without a ledger": newRig(t, server.Options{Tools: legacyDefinitions(), Authenticate: users}),
		"with a ledger":    newRig(t, server.Options{Tools: legacyDefinitions(), Authenticate: users, Ledger: inMemory(t)}),
		"with tasks":       newTaskRig(t),
	} {
		for _, version := range []string{"2025-11-25", "2025-06-18"} {
			c := r.user("ann", version)
			for _, id := range []string{"0", "7", `"x"`, "null", "-1", "1.5", fmt.Sprint(int64(1) << 52), fmt.Sprint(int64(1)<<52 + 12345), fmt.Sprint(int64(1)<<53 - 1), fmt.Sprint(int64(1) << 53)} {
				for _, said := range []string{`"result":{}`, `"error":{"code":-1,"message":"no"}`} {
					resp := c.post(`{"jsonrpc":"2.0","id":` + id + `,` + said + `}`)
					body := readAll(t, resp)
					assert.Equal(t, 400, resp.StatusCode, "%s, %s: id %s: %s", name, version, id, body)
				}
			}
		}
	}
}
