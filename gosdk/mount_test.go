package gosdk_test

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/gosdk"
	"github.com/mcpsaga/mcpsaga/ledger"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server"
	"github.com/mcpsaga/mcpsaga/steps"
)

// If anything is wrong, nothing is added: no tool, no method, no middleware.
func TestMountFails(t *testing.T) {
	_, err := gosdk.Mount(nil, gosdk.Options{Keys: newKeys(t)})
	require.EqualError(t, err, "gosdk: the server is nil")
	store := ledger.NewMemory(ledger.MemoryOptions{})
	t.Cleanup(func() { _ = store.Close() })
	for name, c := range map[string]struct {
		options gosdk.Options
		sagas   []saga.Definition
		want    string
	}{
		"no keys":          {gosdk.Options{}, []saga.Definition{talk(1)}, "Options.Keys is required"},
		"two of a name":    {gosdk.Options{Keys: newKeys(t)}, []saga.Definition{talk(1), talk(2)}, "talk"},
		"a bad definition": {gosdk.Options{Keys: newKeys(t)}, []saga.Definition{talk(1), saga.Flow[none, string]{Info: saga.Info{Name: "empty"}}}, "empty"},
		"one that asks others": {
			gosdk.Options{Keys: newKeys(t), Ledger: store, Questions: server.Questions{PageURL: "http://127.0.0.1/ask"}}, []saga.Definition{talk(1), approved()},
			`tool "approved": it asks others than its caller (By), and who opens a page of a mount is not known: serve it with package server`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSDK(nil)
			s.AddTool(&mcp.Tool{Name: "own", InputSchema: object{"type": "object"}}, nil)
			m, err := gosdk.Mount(s, c.options, c.sagas...)
			require.ErrorContains(t, err, c.want)
			assert.True(t, strings.HasPrefix(err.Error(), "gosdk: "), err)
			assert.Nil(t, m)
			w := (&host{t: t, sdk: s}).wire()
			r := w.greet(legacy, forms)
			assert.False(t, r.Get("result.capabilities.experimental").Exists(), r.Raw)
			assert.False(t, r.Get("result.capabilities.prompts").Exists(), r.Raw)
			r = w.ask("tools/list", object{})
			assert.Len(t, r.Get("result.tools").Array(), 1, r.Raw)
			r = w.ask("tools/callSaga", object{"name": "talk"})
			assert.Equal(t, int64(-32601), r.Get("error.code").Int(), r.Raw)
			_, err = gosdk.Mount(s, gosdk.Options{Keys: newKeys(t)}, talk(1))
			require.NoError(t, err, "it can be mended")
		})
	}
}

// approved asks somebody else than its caller.
func approved() saga.Definition {
	approve := &steps.Form[none]{ID: "approve", Message: "Pay?", By: steps.By{"fay"}, Within: time.Hour}
	return saga.Flow[none, string]{
		Info: saga.Info{Name: "approved", Asks: []steps.Question{approve}},
		Run: func(r *saga.Run, _ none) (string, error) {
			_, err := saga.Ask(r, approve)
			return "", err
		},
	}
}

// The SDK panics about what it does not take. No definition is known that gets as
// far as that.
func TestPanicsOfTheSDKAreErrors(t *testing.T) {
	s := newSDK(nil)
	require.ErrorContains(t, gosdk.AddTool(s, &mcp.Tool{Name: "odd"}), `gosdk: the SDK does not take a definition: AddTool "odd": missing input schema`)
	require.NoError(t, gosdk.AddTool(s, &mcp.Tool{Name: "odd", InputSchema: object{"type": "object"}}))
}

// The methods of the saga proposal and of tasks lead to one Mount. With a second, calls of the first would begin
// what no client can read or end.
func TestOneMountPerServer(t *testing.T) {
	s := newSDK(nil)
	h := mountOn(t, s, gosdk.Options{}, talk(1))
	_, err := gosdk.Mount(s, gosdk.Options{Keys: newKeys(t)}, essay)
	require.EqualError(t, err, "gosdk: the server has a Mount already; give all sagas to one")
	w := h.wire()
	w.greet(legacy, forms)
	r := w.ask("tools/callSaga", object{"name": "talk"})
	assert.Equal(t, "suspended", r.Get("result.state").String(), r.Raw)
	r = w.ask("tools/list", object{})
	assert.Len(t, r.Get("result.tools").Array(), 1, r.Raw)
}

// A tool of the server's is replaced by a saga of its name, as the SDK does it.
func TestMountReplaces(t *testing.T) {
	s := newSDK(nil)
	s.AddTool(&mcp.Tool{Name: "talk", InputSchema: object{"type": "object"}}, nil)
	h := mountOn(t, s, gosdk.Options{}, talk(1))
	r, err := h.connect(modern, speaking()).CallTool(t.Context(), &mcp.CallToolParams{Name: "talk"})
	require.NoError(t, err)
	assert.Equal(t, "w1", text(t, r))
}

// Whoever does not use this package does not have the SDK in their program.
func TestTheRestDoesNotDependOnTheSDK(t *testing.T) {
	const module = "github.com/mcpsaga/mcpsaga/"
	args := []string{"list", "-deps"}
	for _, name := range []string{"saga", "steps", "codec", "content", "server", "client", "sagatest"} {
		args = append(args, module+name)
	}
	out, err := exec.Command("go", args...).Output()
	require.NoError(t, err)
	deps := strings.Fields(string(out))
	assert.Contains(t, deps, module+"server")
	for _, d := range deps {
		assert.False(t, strings.HasPrefix(d, "github.com/modelcontextprotocol/"), d)
		assert.NotEqual(t, module+"gosdk", d)
	}
	out, err = exec.Command("go", "list", "-deps", module+"gosdk").Output()
	require.NoError(t, err)
	assert.Contains(t, strings.Fields(string(out)), "github.com/modelcontextprotocol/go-sdk/mcp", "so is it found where it is")
}

// The hooks of package server are called for what is mounted, and can refuse.
func TestHooks(t *testing.T) {
	var seen []string
	h := mount(t, gosdk.Options{Hooks: []server.Hooks{{Turn: func(ctx context.Context, i *server.TurnInfo, next func(context.Context) error) error {
		if len(seen) == 2 {
			return server.TryAgain("enough", 0)
		}
		err := next(ctx)
		seen = append(seen, fmt.Sprint(i.Request.Method, " ", i.Action, " ", i.Name, " ", i.Outcome))
		return err
	}}}}, talk(1))
	w := h.wire()
	w.ask("tools/call", object{"name": "talk", "_meta": meta(forms)})
	w.ask("tools/callSaga", object{"name": "talk"})
	assert.Equal(t, []string{"tools/call call talk suspended", "tools/callSaga call talk suspended"}, seen)
	r := w.ask("tools/callSaga", object{"name": "talk"})
	assert.Equal(t, "enough", r.Get("error.message").String(), r.Raw)
	assert.True(t, r.Get("error.data.retryable").Bool(), r.Raw)
}
