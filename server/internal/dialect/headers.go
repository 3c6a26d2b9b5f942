package dialect

import (
	"net/http"

	"github.com/mcpsaga/mcpsaga/internal/jsonview"
	"github.com/mcpsaga/mcpsaga/server/internal/wire"
)

// namingMembers are the members of params that the header Mcp-Name repeats, by
// method.
var namingMembers = map[string]string{
	"tools/call": "name", "tools/callSaga": "name", "prompts/get": "name", "resources/read": "uri",
}

// Contradiction refuses a message of a dialect without the headers Mcp-Method and
// Mcp-Name that has them all the same, and with other values than its body. A
// gateway may have let it pass for what they say. What they say of a token is
// compared when that is open: see [Exchange.Named].
func Contradiction(h http.Header, m *wire.Message) *wire.Error {
	if m.Reply != nil {
		return nil
	}
	method, present, problem := wire.HeaderValue(h, wire.MethodHeader)
	if present && problem == "" && method != m.Method {
		problem = "is not what the body says"
	}
	if problem != "" {
		return wire.Mismatch(wire.MethodHeader, problem)
	}
	name, present, problem := wire.DecodedHeader(h, wire.NameHeader)
	if member := namingMembers[m.Method]; present && problem == "" && member != "" {
		if said, ok := jsonview.String(jsonview.Get(m.Params, member)); !ok || said != name {
			problem = "is not what the body says"
		}
	}
	return wire.Mismatch(wire.NameHeader, problem)
}

// ContradictoryBatch is Contradiction for a batch, of which no header can tell.
func ContradictoryBatch(h http.Header) *wire.Error {
	for _, name := range []string{wire.MethodHeader, wire.NameHeader} {
		if len(h.Values(name)) > 0 {
			return wire.Mismatch(name, "is of one message, and this is a batch")
		}
	}
	return nil
}
