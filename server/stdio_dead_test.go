package server_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/ledger"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server"
	"github.com/mcpsaga/mcpsaga/steps"
)

// What a plain call did on a pipe is undone: at once if its client hangs up or the server is
// told to stop, and by the next process after twenty minutes if its own has died.
func TestStdioCallsThatNobodyComesBackFor(t *testing.T) {
	for how, wait := range map[string]time.Duration{"the client hangs up": 0, "the server stops": 0, "the server dies": 20 * time.Minute} {
		t.Run(how, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				memory := ledger.NewMemory(ledger.MemoryOptions{})
				defer memory.Close()
				var held atomic.Int32
				options := server.Options{Keys: newKeys(t), Tools: []saga.Definition{countedTool(&held)}}
				one := newTroubled(memory)
				options.Ledger, options.Workers = one, 1
				first := serverOf(t, options)
				options.Ledger, options.Workers = memory, 1
				second := serverOf(t, options)

				in, write := io.Pipe()
				read, out := io.Pipe()
				ctx, stop := context.WithCancel(t.Context())
				var serving sync.WaitGroup
				serving.Go(func() { _ = first.ServeStdio(ctx, in, out) })
				lines := bufio.NewScanner(read)
				fmt.Fprintln(write, initializeMessage("2025-11-25", everything))
				require.True(t, lines.Scan())
				synctest.Wait() // the server's workers have begun
				fmt.Fprintln(write, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"room","arguments":{}}}`)
				require.True(t, lines.Scan())
				require.Contains(t, lines.Text(), "elicitation/create")
				require.EqualValues(t, 1, held.Load())
				go io.Copy(io.Discard, read)

				// Nothing is undone as long as the client is there.
				time.Sleep(8 * time.Minute)
				require.EqualValues(t, 1, held.Load())
				one.setDown(how == "the server dies")
				if how == "the server stops" {
					stop()
				} else {
					write.Close()
				}
				serving.Wait()
				if wait == 0 {
					assert.Zero(t, held.Load(), "the process may end now")
				}
				next, reply := io.Pipe()
				serving.Go(func() { _ = second.ServeStdio(t.Context(), next, io.Discard) })
				if wait > 0 {
					time.Sleep(wait - 4*time.Minute) // it was renewed every so often
					assert.EqualValues(t, 1, held.Load())
					time.Sleep(5 * time.Minute)
				}
				synctest.Wait()
				assert.Zero(t, held.Load())
				stop()
				write.Close()
				reply.Close()
				out.Close()
				serving.Wait()
				first.Close()
				second.Close()
			})
		})
	}
}

func serverOf(t *testing.T, o server.Options) *server.Server {
	t.Helper()
	o.Logger = slog.New(slog.DiscardHandler)
	s, err := server.New(o)
	require.NoError(t, err)
	return s
}

// countedTool holds a room while it asks. held is how many are.
func countedTool(held *atomic.Int32) saga.Definition {
	sure := &steps.Form[sureForm]{ID: "sure", Message: "Sure?"}
	room := &saga.Effect[string, bool]{
		Name: "room",
		Do:   func(context.Context, saga.Key, string) (bool, error) { held.Add(1); return true, nil },
		Undo: func(context.Context, saga.Performed[string, bool]) error { held.Add(-1); return nil },
	}
	return saga.Flow[struct{}, string]{
		Info: saga.Info{Name: "room", Asks: []steps.Question{sure}, Effects: []saga.Declared{room}},
		Run: func(r *saga.Run, _ struct{}) (string, error) {
			if _, err := saga.Do(r, room, "7"); err != nil {
				return "", err
			}
			_, err := saga.Ask(r, sure)
			return "", err
		},
	}
}
