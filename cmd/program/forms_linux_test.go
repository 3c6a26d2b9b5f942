package program

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// questionnaire is a server whose tool asks one form after the other, as many as
// there are rounds, and returns what was entered.
func questionnaire(t *testing.T, rounds int) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var request struct {
			ID     json.RawMessage
			Params struct {
				CompletedSteps []struct {
					Result struct{ Content struct{ Name string } }
				}
			}
		}
		if !assert.NoError(t, json.NewDecoder(r.Body).Decode(&request)) {
			return
		}
		w.Header().Set("Content-Type", "application/json")
		var names []string
		for _, step := range request.Params.CompletedSteps {
			names = append(names, step.Result.Content.Name)
		}
		if n := len(names) + 1; n <= rounds {
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"state":"suspended","sagaToken":"t%d","steps":[{"type":"elicitation","stepId":"q%[2]d","params":
				{"message":"Question","requestedSchema":{"type":"object","required":["name"],"properties":{"name":{"type":"string","title":"Entry %[2]d"}}}}}]}}`, request.ID, n)
			return
		}
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":%q}]}}`, request.ID, strings.Join(names, " "))
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// What is typed into the second and third form must arrive, to the last letter: no
// reader of a form that is over may be left to take it.
func TestFormsInARow(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.env = append(h.env, "ACCESSIBLE=", "TERM=xterm")
	cmd := h.command("call", "survey", "--protocol", "saga", "--server", questionnaire(t, 3))
	var out bytes.Buffer
	cmd.Stdout = &out
	person := atTerminal(t, cmd)
	names := []string{"alphabet", "bookkeeper", "circumstance"}
	for i, name := range names {
		person.when(fmt.Sprintf("Entry %d", i+1), "")
		for _, letter := range name {
			_, err := person.keys.WriteString(string(letter))
			require.NoError(t, err)
			time.Sleep(2 * time.Millisecond)
		}
		_, err := person.keys.WriteString("\r")
		require.NoError(t, err)
		time.Sleep(2 * time.Millisecond)
		_, err = person.keys.WriteString("\r") // send
		require.NoError(t, err)
	}
	require.NoError(t, cmd.Wait(), person.shown())
	assert.Equal(t, strings.Join(names, " ")+"\n", out.String())

	// A form that is over is taken from the screen: it would look as if it could be used.
	gone := regexp.MustCompile(`\r\x1b\[(\d+)A\x1b\[J[^\n]*Entry \d: `).FindAllStringSubmatch(person.end(), -1)
	require.Len(t, gone, len(names), "%q", person.shown())
	for _, g := range gone {
		assert.Equal(t, "7", g[1], "from the last of its eight lines to the first")
	}
}
