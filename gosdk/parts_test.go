package gosdk_test

import (
	"maps"
	"net/http"
	"regexp"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/content"
	"github.com/mcpsaga/mcpsaga/gosdk"
	"github.com/mcpsaga/mcpsaga/saga"
)

// chapters gives three parts before its end.
func chapters() saga.Definition {
	type args struct {
		Title string `json:"title"`
	}
	return saga.Flow[args, string]{Info: saga.Info{Name: "chapters", Yields: true}, Run: func(r *saga.Run, in args) (string, error) {
		for n := range 3 {
			if err := r.Yield(content.Textf("%s %d", in.Title, n)); err != nil {
				return "", err
			}
		}
		return "fin", nil
	}}
}

var theToken = regexp.MustCompile(`resumeToken: (\S+)$`)

// A model whose client knows nothing of parts reads how to go on, and does. The SDK's types have
// no member for a token beside arguments and content, so in params it cannot come through; in
// _meta it does.
func TestPartsMounted(t *testing.T) {
	h := mount(t, gosdk.Options{}, chapters())
	for _, version := range []string{modern, legacy} {
		t.Run(version, func(t *testing.T) {
			cs := h.connect(version, nil)
			list, err := cs.ListTools(t.Context(), nil)
			require.NoError(t, err)
			schema, _ := list.Tools[0].InputSchema.(map[string]any)
			assert.Contains(t, schema["properties"], "resumeToken", "the model sees the argument")

			args := object{"title": "Part"}
			var read []string
			for calls := 0; calls < 10; calls++ {
				r, err := cs.CallTool(t.Context(), &mcp.CallToolParams{Name: "chapters", Arguments: args})
				require.NoError(t, err)
				read = append(read, r.Content[0].(*mcp.TextContent).Text)
				last := r.Content[len(r.Content)-1].(*mcp.TextContent).Text
				token := theToken.FindStringSubmatch(last)
				if token == nil {
					break
				}
				assert.Equal(t, token[1], r.Meta["io.github.mcpsaga/nextResumeToken"])
				args = maps.Clone(args)
				args["resumeToken"] = token[1]
			}
			assert.Equal(t, []string{"Part 0", "Part 1", "Part 2", "fin"}, read)

			// A client that knows of _meta.
			p := &mcp.CallToolParams{Name: "chapters", Arguments: object{"title": "Part"}}
			read = nil
			for calls := 0; calls < 10; calls++ {
				r, err := cs.CallTool(t.Context(), p)
				require.NoError(t, err)
				read = append(read, r.Content[0].(*mcp.TextContent).Text)
				next, _ := r.Meta["io.github.mcpsaga/nextResumeToken"].(string)
				if next == "" {
					break
				}
				p = &mcp.CallToolParams{Name: "chapters", Arguments: object{"title": "Part"}, Meta: mcp.Meta{"io.github.mcpsaga/resumeToken": next}}
			}
			assert.Equal(t, []string{"Part 0", "Part 1", "Part 2", "fin"}, read)

			_, err = cs.CallTool(t.Context(), &mcp.CallToolParams{Name: "chapters", Arguments: object{"title": "Another", "resumeToken": p.Meta["io.github.mcpsaga/resumeToken"]}})
			assert.ErrorContains(t, err, "the resumeToken is not valid here")
		})
	}
}

// A call with a token is left as it was when its session ends or the server stops, as its client can come back with the
// token. One that is cancelled is undone.
func TestCallsWithATokenMounted(t *testing.T) {
	for how, left := range map[string]bool{http.MethodDelete: true, "shutdown": true, "cancelled": false} {
		t.Run(how, func(t *testing.T) {
			rooms := new(rooms)
			h := mount(t, gosdk.Options{}, rooms.pages())
			s := newSession(t, h.serve(), "", forms)
			part := s.stream(message(1, "tools/call", object{"name": "book"}))()
			token := part.Get(`result._meta.io\.github\.mcpsaga/nextResumeToken`).String()
			require.NotEmpty(t, token, part.Raw)
			question := s.stream(message(2, "tools/call", object{"name": "book", "arguments": object{"resumeToken": token}}))()
			require.Equal(t, "elicitation/create", question.Get("method").String())
			switch how {
			case http.MethodDelete:
				status, body := s.do(http.MethodDelete, "")
				require.Equal(t, 204, status, body)
			case "cancelled":
				status, body := s.do(http.MethodPost, message(nil, "notifications/cancelled", object{"requestId": 2}))
				require.Equal(t, 202, status, body)
				rooms.requireReleased(t)
			}
			h.shutDown() // the call has ended
			held, _ := rooms.count()
			assert.Equal(t, left, held == 1)
		})
	}
}

// On standard input and output the end of the input is the end of the session.
func TestCallsWithATokenAtTheEndOfTheInput(t *testing.T) {
	rooms := new(rooms)
	h := mount(t, gosdk.Options{}, rooms.pages())
	w := h.wire()
	w.greet(legacy, forms)
	token := w.ask("tools/call", object{"name": "book"}).Get(`result._meta.io\.github\.mcpsaga/nextResumeToken`).String()
	require.NotEmpty(t, token)
	w.begin("tools/call", object{"name": "book", "arguments": object{"resumeToken": token}})
	require.Equal(t, "elicitation/create", w.read().Get("method").String())
	w.hangUp()
	h.shutDown()
	held, _ := rooms.count()
	assert.Equal(t, 1, held)
}
