package auth

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"

	"github.com/mcpsaga/mcpsaga/saga"
)

// maxCalled is how much of a request is read to see what it calls, in bytes.
const maxCalled = 1 << 20

// ahead refuses a request for a tool or prompt whose scopes a caller lacks, as long as the refusal can have a status: other
// servers begin their response before they ask Permit. That has the last word, also about what is not seen here: resources,
// which requests name by their URIs, what a token of a saga is of, and messages that are large or come in batches.
func (g *Guard) ahead(r *http.Request, who saga.Caller) error {
	if r.Method != http.MethodPost || g.opts.Hide || len(g.opts.Tools)+len(g.opts.Prompts) == 0 {
		return nil
	}
	begin, err := io.ReadAll(io.LimitReader(r.Body, maxCalled))
	if err != nil {
		return nil // the server meets it, too
	}
	r.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(begin), r.Body), r.Body}
	var message struct {
		Method string `json:"method"`
		Params struct {
			Name string `json:"name"`
		} `json:"params"`
	}
	_ = json.Unmarshal(begin, &message) // what cannot be read calls nothing
	kind := map[string]string{"tools/call": "tool", "tools/callSaga": "tool", "prompts/get": "prompt"}[message.Method]
	needs := g.needs[kind][message.Params.Name]
	if g.has(who, needs) {
		return nil
	}
	return g.forbidden(who, r, needs)
}
