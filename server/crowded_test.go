package server_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/steps"
)

// crowdTool asks two questions at once.
func crowdTool() saga.Definition {
	one, two := &steps.Form[struct{}]{ID: "one", Message: "One?"}, &steps.Form[struct{}]{ID: "two", Message: "Two?"}
	return saga.Machine[struct{}, struct{}]{
		Info: saga.Info{Name: "crowd", Asks: []steps.Question{one, two}},
		Start: func(t *saga.Turn[struct{}, struct{}]) (saga.Next, error) {
			return t.Ask("asked", one, two)
		},
		Steps: saga.Steps[struct{}, struct{}]{"asked": func(t *saga.Turn[struct{}, struct{}]) (saga.Next, error) {
			return t.Textf("done")
		}},
	}
}

// A client on stdio may have any number of calls that wait for its answers: they
// come on lines that have to be read, or none of the calls would ever end.
func TestStdioReadsAnswersHoweverManyCallsWait(t *testing.T) {
	const calls, tooMany = 300, 1100
	for _, n := range []int{calls, tooMany} {
		in, write := io.Pipe()
		read, out := io.Pipe()
		ended := make(chan error, 1)
		go func() {
			ended <- newStdio(t, crowdTool()).ServeStdio(t.Context(), in, out)
			out.Close()
		}()
		questions, results := make(chan json.RawMessage, 2*n), make(chan bool, n)
		go func() {
			lines := bufio.NewScanner(read)
			for lines.Scan() {
				switch m := parseLegacy(t, lines.Text()); {
				case m.Method == "elicitation/create":
					questions <- m.ID
				case string(m.ID) != "0":
					results <- m.Result != nil
				}
			}
		}()
		go func() {
			fmt.Fprintln(write, `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{"elicitation":{}}}}`)
			for i := range n {
				fmt.Fprintln(write, toolCall(i+1, "crowd", "{}"))
			}
			for id := range questions {
				fmt.Fprintf(write, `{"jsonrpc":"2.0","id":%s,"result":{"action":"accept","content":{}}}`+"\n", id)
			}
			write.Close()
		}()
		answered, refused := 0, 0
		for range n {
			select {
			case ok := <-results:
				if ok {
					answered++
				} else {
					refused++
				}
			case <-time.After(time.Minute):
				t.Fatalf("of %d calls, %d were answered, then no more", n, answered)
			}
		}
		close(questions)
		assert.GreaterOrEqual(t, answered, min(n, 1024))
		assert.Equal(t, n-answered, refused)
		require.NoError(t, <-ended)
	}
}

// What one client on stdio can have a server do at once has limits: of what is worked
// on, and of what is open.
func TestStdioLimits(t *testing.T) {
	// connected serves a client that sends lines and counts how they are answered.
	connected := func(t *testing.T, tool saga.Definition) (send func(string), refused *int, end func()) {
		in, write := io.Pipe()
		read, out := io.Pipe()
		ended := make(chan error, 1)
		go func() {
			ended <- newStdio(t, tool).ServeStdio(t.Context(), in, out)
			out.Close()
		}()
		refused = new(int)
		counted := make(chan bool)
		go func() {
			defer close(counted)
			for lines := bufio.NewScanner(read); lines.Scan(); {
				if m := parseLegacy(t, lines.Text()); m.Error != nil && m.Error.Message == "too many requests are under way" {
					*refused++
				}
			}
		}()
		send = func(line string) { fmt.Fprintln(write, line) }
		send(initializeMessage("2025-11-25", everything))
		return send, refused, func() {
			write.Close()
			require.NoError(t, <-ended)
			<-counted
		}
	}
	t.Run("worked on", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			g := &gate{make(chan bool, 100), make(chan bool, 100), make(chan error, 100)}
			send, _, end := connected(t, g.tool())
			go func() {
				for i := range 70 {
					send(toolCall(i+1, "gate", "{}"))
				}
			}()
			synctest.Wait()
			assert.Len(t, g.entered, 64)
			g.leave <- true
			synctest.Wait()
			assert.Len(t, g.entered, 65, "the next one has taken its place")
			for range 69 {
				g.leave <- true
			}
			synctest.Wait()
			assert.Len(t, g.entered, 70)
			end()
		})
	})
	t.Run("open", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			send, refused, end := connected(t, crowdTool())
			for i := range 1030 {
				send(toolCall(i+1, "crowd", "{}"))
			}
			synctest.Wait()
			assert.Equal(t, 6, *refused)
			end()
		})
	})
}
