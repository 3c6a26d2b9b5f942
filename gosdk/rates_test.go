package gosdk_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/mcpsaga/mcpsaga/gosdk"
	"github.com/mcpsaga/mcpsaga/server"
)

// The rates of callers hold for what is mounted, in sessions and without.
func TestMountsHaveRates(t *testing.T) {
	once := server.Rate{Count: 1, Per: time.Hour}
	for _, o := range []gosdk.Options{{CallerRate: once}, {ToolRates: map[string]server.Rate{"talk": once}}} {
		url := mount(t, o, talk(1)).serve(authorized)
		for _, user := range []string{"alice", "bob"} {
			_, body := modernCall(t, url, user, object{"name": "talk"})
			assert.Contains(t, last(body).Raw, "input_required")
			_, body = modernCall(t, url, user, object{"name": "talk"})
			assert.EqualValues(t, -31503, last(body).Get("error.code").Int(), body)
			assert.Positive(t, last(body).Get("error.data.retryAfterMs").Int(), body)
			_, body = newSession(t, url, user, forms).do("POST", message(1, "tools/call", object{"name": "talk"}))
			assert.EqualValues(t, -31503, last(body).Get("error.code").Int(), body)
		}
	}
}
