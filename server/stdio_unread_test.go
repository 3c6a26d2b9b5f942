package server_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/server"
)

// A client that reads nothing any more does not keep the server from its end.
func TestStdioClientsThatDoNotRead(t *testing.T) {
	for how, ends := range map[string]func(stop context.CancelFunc, in io.Closer){
		"the input ends":   func(_ context.CancelFunc, in io.Closer) { in.Close() },
		"the server stops": func(stop context.CancelFunc, _ io.Closer) { stop() },
	} {
		t.Run(how, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := serverOf(t, server.Options{Keys: newKeys(t), Tools: legacyDefinitions()})
				in, write := io.Pipe()
				read, out := io.Pipe()
				ctx, stop := context.WithCancel(t.Context())
				served := make(chan error, 1)
				go func() { served <- s.ServeStdio(ctx, in, out) }()
				fmt.Fprintln(write, initializeMessage("2025-11-25", everything))
				require.True(t, bufio.NewScanner(read).Scan())
				fmt.Fprintln(write, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
				synctest.Wait()
				s.ToolsChanged() // which is not read
				synctest.Wait()
				ends(stop, write)
				select {
				case <-served:
				case <-time.After(time.Minute):
					assert.Fail(t, "it still serves")
				}
				stop()
				write.Close()
				read.Close()
				s.Close()
			})
		})
	}
}
