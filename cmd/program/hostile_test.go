package program

import (
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/assert"
)

// object is what a server says.
type object = map[string]any

// evil is text with what a terminal would act on: it sets the clipboard and the
// title, clears the screen, and turns the direction of writing.
const evil = "ev\x1b]52;c;ZXZpbA==\x07i\u009d\u009cl\x1b[2J\u202e"

// spoken is what a server says of itself that speaks the saga proposal as well.
var spoken = object{
	"supportedVersions": []string{"2026-07-28"},
	"capabilities":      object{"experimental": object{"io.github.mcpsaga/saga": object{}}, "extensions": object{"io.modelcontextprotocol/tasks": object{}}},
}

// hostile is a server that answers each method with a result, or with an error if it
// is none.
func hostile(t *testing.T, results map[string]any) string {
	t.Helper()
	results = maps.Clone(results)
	if results == nil {
		results = map[string]any{}
	}
	if results["server/discover"] == nil {
		results["server/discover"] = spoken
	}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var request struct {
			ID     json.RawMessage
			Method string
		}
		if !assert.NoError(t, json.NewDecoder(r.Body).Decode(&request)) {
			return
		}
		answer := map[string]any{"jsonrpc": "2.0", "id": request.ID}
		if result, ok := results[request.Method]; ok {
			answer["result"] = result
		} else {
			answer["error"] = map[string]any{"code": -32602, "message": evil}
		}
		w.Header().Set("Content-Type", "application/json")
		assert.NoError(t, json.NewEncoder(w).Encode(answer))
	}))
	t.Cleanup(s.Close)
	return s.URL
}
