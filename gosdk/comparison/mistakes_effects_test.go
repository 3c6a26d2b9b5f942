package comparison_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"testing"
	"time"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/gosdk/comparison"
	"github.com/mcpsaga/mcpsaga/saga"
)

func TestEffectTwice(t *testing.T) {
	t.Run("Go SDK", func(t *testing.T) {
		var c comparison.Calendar
		url := sdkTool(t, func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			if req.Params.RequestState == "" {
				return form("1", "sure", &jsonschema.Schema{Type: "boolean"}), nil
			}
			_, err := c.Reserve(ctx, rand.Text(), "staging") // the key is made too late
			return said("done"), err
		})
		var u user
		for range 2 { // the response was lost: the client sends the same again
			u.must(t, url, "1", "sure", accept("sure", true))
		}
		assert.Equal(t, []int{1, 2}, c.Reserved())
	})
	careless := func(c *comparison.Calendar) *saga.Effect[string, int] {
		e := reserve(c)
		e.Do = func(ctx context.Context, _ saga.Key, target string) (int, error) {
			return c.Reserve(ctx, rand.Text(), target)
		}
		return e
	}
	sweptWith(t, careless, "an effect happens once per key")
}

func TestForgottenUndo(t *testing.T) {
	t.Run("Go SDK", func(t *testing.T) {
		var c comparison.Calendar
		url := sdkTool(t, func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			switch req.Params.RequestState {
			case "":
				return form("1", "target", &jsonschema.Schema{Type: "string"}), nil
			case "1":
				_, err := c.Reserve(ctx, "key", "staging")
				return form("2", "sure", &jsonschema.Schema{Type: "boolean"}), err
			}
			return nil, fmt.Errorf("not confirmed")
		})
		r, err := (&user{accept: map[string]any{"target": "staging"}}).call(t, url)
		require.NoError(t, err)
		assert.True(t, r.IsError)
		assert.Equal(t, []int{1}, c.Reserved())
	})
	forgetful := func(c *comparison.Calendar) *saga.Effect[string, int] {
		e := reserve(c)
		e.Undo = nil
		return e
	}
	sweptWith(t, forgetful, `effect "reserve" was done and has no Undo`)
}

func TestWallClock(t *testing.T) {
	t.Run("Go SDK", func(t *testing.T) {
		var asked []string
		url := sdkTool(t, func(_ context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			if req.Params.RequestState == "" {
				return form("1", "sure", &jsonschema.Schema{Type: "boolean"}), nil
			}
			asked = append(asked, time.Now().Format(time.StampNano)) // for what is reserved
			return said("done"), nil
		})
		var u user
		for range 2 {
			u.must(t, url, "1", "sure", accept("sure", true))
		}
		assert.NotEqual(t, asked[0], asked[1], "the round that is repeated reserves something else")
	})
	t.Run("machine", func(t *testing.T) {
		got := swept(t, func(c *comparison.Calendar) saga.Definition {
			e := reserve(c)
			m := machineOf(e)
			m.Steps["chosen"] = func(t *shortTurn) (saga.Next, error) {
				if _, err := saga.Do(t, e, time.Now().Format(time.StampNano)); err != nil {
					return nil, err
				}
				return t.Ask("confirmed", askSure)
			}
			return m
		})
		assert.Contains(t, got, `effect "reserve" was begun twice with one key but with different inputs`)
	})
	t.Run("flow", func(t *testing.T) {
		got := swept(t, func(c *comparison.Calendar) saga.Definition {
			e := reserve(c)
			f := flowOf(e)
			f.Run = func(r *saga.Run, _ none) (string, error) {
				if _, err := saga.Ask(r, askTarget); err != nil {
					return "", err
				}
				//sagavet:ignore the test is about this
				if _, err := saga.Do(r, e, time.Now().Format(time.StampNano)); err != nil {
					return "", err
				}
				_, err := saga.Ask(r, askSure)
				return "Deploying.", err
			}
			return f
		})
		assert.Contains(t, vetted(), "time.Now does not do the same when the flow runs again")
		assert.Contains(t, got, "the flow diverges from its record", "which is an error at run time too")
	})
}
