package handshake

import (
	"cmp"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"encoding/json"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/mcpsaga/mcpsaga/server/internal/wire"
	"github.com/mcpsaga/mcpsaga/steps"
)

// links are the pages that a call has sent the user to. From 2025-11-25 on each has
// an id, and the client is told when what was to be done there is done (MCP
// 2025-11-25, client/elicitation, completion notifications). What happens on a page
// the server need not know; but when the call has succeeded, it is done.
type links struct {
	id       string            // that of the next, if it is not to be found anew
	ids      map[string]string // of the steps asked, by step id
	accepted []string
}

// open adds the id to the parameters of a request in URL mode.
func (l *links) open(s steps.Step) json.RawMessage {
	id := cmp.Or(l.id, rand.Text())
	if l.ids == nil {
		l.ids = make(map[string]string)
	}
	l.ids[s.ID] = id
	out := append(jsontext.Value(nil), s.Params[:len(s.Params)-1]...) // compact: ends with the brace
	return append(wire.AppendString(append(out, `,"elicitationId":`...), id), '}')
}

// linkID is the id of a page that a task's question sends the user to: each replica finds the same.
func linkID(task, step string) string {
	sum := sha256.Sum256([]byte("page of task " + task + " " + step))
	return base32.StdEncoding.EncodeToString(sum[:16])[:26]
}
