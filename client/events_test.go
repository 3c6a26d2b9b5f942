package client_test

import (
	"fmt"
	"math"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/client"
)

const told = "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{\"progressToken\":1,\"progress\":1}}\n\n"

// events answers with a stream of events, of which one is the result.
func events(before, raw, after string) reply {
	return func(w http.ResponseWriter, r asked) {
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprintf(w, "%sevent: message\nid: 7\ndata: {\"jsonrpc\":\"2.0\",\"id\":%s,\ndata: \"result\":%s}\n\n%s", before, r.ID, raw, after)
	}
}

func TestStreamsOfEvents(t *testing.T) {
	t.Parallel()
	priming := "id: 0\nretry: 100\ndata:\n\n"
	for name, answer := range map[string]reply{
		"the response alone":    events("", deployed, ""),
		"something told before": events(priming+": hello\n\n"+told, deployed, ""),
		"something told after":  events("", deployed, told),
	} {
		t.Run(name, func(t *testing.T) {
			r, err := play(t, answer).client(t).Call(t.Context(), "complex_tool", nil, client.Handlers{})
			require.NoError(t, err)
			assert.Contains(t, r.Content.Text(), "Deployment to production")
		})
	}
}

func TestStreamThatEndsEarlyIsALoss(t *testing.T) {
	t.Parallel()
	early := body(http.StatusOK, "text/event-stream", told)
	s := play(t, result(askTarget), early, events("", deployed, ""))
	var who people
	_, err := s.client(t).Call(t.Context(), "complex_tool", nil, who.handlers())
	require.NoError(t, err, "the turn is sent again")
	assert.Equal(t, string(s.got()[1].Params), string(s.got()[2].Params))

	_, err = play(t, early).client(t).Call(t.Context(), "complex_tool", nil, client.Handlers{})
	var lost *client.TransportError
	require.ErrorAs(t, err, &lost, "a first turn is not")
	assert.ErrorContains(t, err, "ended without the response")
}

func TestStreamsThatAreWrong(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		stream, want string
	}{
		"another id":    {"data: {\"jsonrpc\":\"2.0\",\"id\":99,\"result\":{}}\n\n", "answered request"},
		"not JSON":      {"data: {\"jsonrpc\n\n", "not a JSON-RPC response"},
		"a large event": {"data: " + strings.Repeat("x", 2000) + "\n\n", "more than 1000 bytes"},
		"many events":   {strings.Repeat(told, 20), "more than 1000 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			s := play(t, body(http.StatusOK, "text/event-stream", c.stream))
			limited := client.New(&client.HTTP{URL: s.URL, MaxResponse: 1000}, client.Options{Protocol: "saga"})
			defer limited.Close()
			_, err := limited.Call(t.Context(), "complex_tool", nil, client.Handlers{})
			var wrong *client.ProtocolError
			require.ErrorAs(t, err, &wrong)
			assert.ErrorContains(t, err, c.want)
		})
	}
}

// Who wants no limit gives the largest.
func TestStreamsWithoutALimit(t *testing.T) {
	t.Parallel()
	for name, most := range map[string]int64{"all there is": math.MaxInt64, "nearly": math.MaxInt64 - 1} {
		t.Run(name, func(t *testing.T) {
			answer := "data: {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"content\":[{\"type\":\"text\",\"text\":\"" + strings.Repeat("x", 1<<17) + "\"}]}}\n\n"
			s := play(t, body(http.StatusOK, "text/event-stream", answer))
			c := client.New(&client.HTTP{URL: s.URL, MaxResponse: most}, client.Options{Protocol: "saga"})
			defer c.Close()
			result, err := c.Call(t.Context(), "complex_tool", nil, client.Handlers{})
			require.NoError(t, err)
			assert.Len(t, result.Content.Text(), 1<<17)
		})
	}
}
