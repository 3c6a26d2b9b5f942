package gosdk_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/mcpsaga/mcpsaga/gosdk"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server"
)

// What is mounted is listed for callers who may use it, and is not there for others. What takes another permission is listed.
func TestMountsPermit(t *testing.T) {
	h := mount(t, gosdk.Options{Permit: func(_ context.Context, who saga.Caller, kind, name string) error {
		switch {
		case who.Subject == "bob" && kind == "tool" && name == "talk":
			return server.ErrHidden
		case who.Subject == "carol":
			return &server.AuthError{Status: 403}
		}
		return nil
	}}, talk(1))
	url := h.serve(authorized)
	for user, c := range map[string]struct {
		listed bool
		says   string
	}{"alice": {true, ""}, "bob": {false, "there is no tool of that name; tools/list lists the tools of this server"}, "carol": {true, "this needs a permission that the caller does not have"}} {
		_, _, body := post(t, httpClient, url, message(1, "tools/list", object{"_meta": meta(forms)}), "Authorization", "Bearer "+user, "MCP-Protocol-Version", modern, "Mcp-Method", "tools/list")
		assert.Equal(t, c.listed, last(body).Get("result.tools.0.name").String() == "talk", body)
		assert.Equal(t, "private", last(body).Get("result.cacheScope").String(), body)
		_, body = modernCall(t, url, user, object{"name": "talk"})
		assert.Equal(t, c.says, last(body).Get("error.message").String(), body)
		session := newSession(t, url, user, forms)
		_, body = session.do("POST", message(1, "tools/list", object{}))
		assert.Equal(t, c.listed, last(body).Get("result.tools.0.name").String() == "talk", body)
	}
}

// A panic of Permit fails the request that it was asked for, and no other.
func TestPanicsOfPermitAreErrors(t *testing.T) {
	h := mount(t, gosdk.Options{Permit: func(_ context.Context, who saga.Caller, _, _ string) error {
		if who.Subject == "bob" {
			_ = who.Scopes[1000]
		}
		return nil
	}}, talk(1))
	url := h.serve(authorized)
	list := func(user string) string {
		_, _, body := post(t, httpClient, url, message(1, "tools/list", object{"_meta": meta(forms)}), "Authorization", "Bearer "+user, "MCP-Protocol-Version", modern, "Mcp-Method", "tools/list")
		return last(body).Raw
	}
	assert.Contains(t, list("bob"), "internal error")
	_, body := modernCall(t, url, "bob", object{"name": "talk"})
	assert.Contains(t, last(body).Raw, "internal error")
	assert.Contains(t, list("alice"), "talk")
}
