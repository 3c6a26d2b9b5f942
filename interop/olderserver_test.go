package interop

import (
	"bufio"
	"context"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/client"
	"github.com/mcpsaga/mcpsaga/client/legacy"
	"github.com/mcpsaga/mcpsaga/steps"
)

// TestOlderServer has this module's client find out by itself what servers on the official
// TypeScript SDK 1 speak, and answer what they ask.
func TestOlderServer(t *testing.T) {
	t.Parallel()
	node := needNode(t)
	script, err := filepath.Abs(filepath.Join(nodeDir, "server.mjs"))
	require.NoError(t, err)
	web := node.command("server.mjs", "http")
	stdout, err := web.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, web.Start())
	t.Cleanup(func() {
		_ = web.Process.Kill()
		_ = web.Wait()
	})
	address, err := bufio.NewReader(stdout).ReadString('\n')
	require.NoError(t, err)
	for name, transport := range map[string]client.Transport{
		"stdio": &client.Stdio{Command: node.node, Args: []string{script}},
		"HTTP":  &client.HTTP{URL: strings.TrimSpace(address)},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, stop := context.WithTimeout(t.Context(), 2*time.Minute)
			defer stop()
			c := client.New(transport, client.Options{Sessions: legacy.Open})
			defer c.Close()
			var progress []client.Progress
			handlers := client.Handlers{
				Elicit: func(_ context.Context, r *client.Request) (*client.ElicitResult, error) {
					assert.Equal(t, "Which color?", r.Message)
					form, err := r.Form()
					if assert.NoError(t, err) {
						assert.Len(t, form.Fields, 1)
					}
					return client.Accept(map[string]string{"color": "blue"}), nil
				},
				Sample: func(_ context.Context, r *client.Request) (*steps.SampleResult, error) {
					return client.Reply("m", r.Sample.Messages[0].Content.Text()+" Yes"), nil
				},
				Roots: func(context.Context, *client.Request) ([]steps.Root, error) {
					return []steps.Root{{URI: "file:///here", Name: "here"}}, nil
				},
				OnProgress: func(p client.Progress) { progress = append(progress, p) },
			}
			tools, err := c.Tools(ctx)
			require.NoError(t, err)
			require.Len(t, tools, 1)
			for range 2 {
				result, err := c.Call(ctx, "ask", map[string]string{"topic": "sky"}, handlers)
				require.NoError(t, err)
				assert.Equal(t, "sky: accept blue, Is it nice? Yes, here", result.Content.Text())
			}
			assert.Contains(t, progress, client.Progress{Done: 1, Total: 2, Message: "asking"})
			handlers.Elicit = func(context.Context, *client.Request) (*client.ElicitResult, error) { return client.Decline(), nil }
			result, err := c.Call(ctx, "ask", map[string]string{"topic": "sky"}, handlers)
			require.NoError(t, err)
			assert.Contains(t, result.Content.Text(), "decline undefined")
		})
	}
}
