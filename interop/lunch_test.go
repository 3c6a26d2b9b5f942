package interop

import (
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/client"
	"github.com/mcpsaga/mcpsaga/internal/buildtest"
	"github.com/mcpsaga/mcpsaga/internal/porttest"
	"github.com/mcpsaga/mcpsaga/server"
)

// lunchProgram builds the example.
func lunchProgram(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "lunch")
	require.NoError(t, buildtest.Program(file, "../examples/lunch"))
	return file
}

// lunchCommand is a command of the program, which has its keys and ledger beside it.
func lunchCommand(t *testing.T, program string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(t.Context(), program, args...)
	cmd.Env, cmd.Stderr = append(os.Environ(), "XDG_CONFIG_HOME="+program+".config"), os.Stderr
	return cmd
}

// serveLunch starts the program on a port of its own, and returns its endpoint.
func serveLunch(t *testing.T, program string) string {
	t.Helper()
	address := porttest.Reserve(t)
	cmd := lunchCommand(t, program, "serve", "--addr", address)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		assert.NoError(t, cmd.Process.Kill())
		cmd.Wait() //nolint:errcheck // it was killed
	})
	require.Eventually(t, func() bool {
		c, err := net.Dial("tcp", address)
		if err == nil {
			c.Close()
		}
		return err == nil
	}, time.Minute, 10*time.Millisecond)
	return "http://" + address + server.Endpoint
}

// Programs on the official Go SDK call the tool as any other, and answer its form.
func TestLunchWithTheGoSDK(t *testing.T) {
	program := lunchProgram(t)
	for name, transport := range map[string]func() mcp.Transport{
		"stdio": func() mcp.Transport { return &mcp.CommandTransport{Command: lunchCommand(t, program, "stdio")} },
		"http":  func() mcp.Transport { return &mcp.StreamableClientTransport{Endpoint: serveLunch(t, program)} },
	} {
		t.Run(name, func(t *testing.T) {
			asked := ""
			c := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1.0.0"}, &mcp.ClientOptions{
				ElicitationHandler: func(_ context.Context, r *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
					asked = r.Params.Message
					return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"dish": "soup"}}, nil
				},
			})
			session, err := c.Connect(t.Context(), transport(), nil)
			require.NoError(t, err)
			defer session.Close()
			result, err := session.CallTool(t.Context(), &mcp.CallToolParams{
				Name: "order_lunch", Arguments: map[string]any{"office": "Berlin"},
			})
			require.NoError(t, err)
			require.Len(t, result.Content, 1)
			assert.Equal(t, &mcp.TextContent{Text: "Ordered soup for Berlin."}, result.Content[0])
			assert.Equal(t, "What would you like?", asked)
		})
	}
}

// Package client does so by the saga methods.
func TestLunchWithPackageClient(t *testing.T) {
	c := client.New(&client.HTTP{URL: serveLunch(t, lunchProgram(t))}, client.Options{})
	defer c.Close()
	result, err := c.Call(t.Context(), "order_lunch", map[string]any{"office": "Berlin"}, client.Handlers{
		Elicit: func(context.Context, *client.Request) (*client.ElicitResult, error) {
			return client.Accept(map[string]string{"dish": "pasta"}), nil
		},
	})
	require.NoError(t, err)
	assert.Equal(t, "Ordered pasta for Berlin.", result.Content.Text())
}
