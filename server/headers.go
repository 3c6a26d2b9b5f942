package server

import (
	"net/http"

	"github.com/mcpsaga/mcpsaga/internal/jsonview"
)

// namingMembers are the members of params that the header Mcp-Name repeats, by
// method.
var namingMembers = map[string]string{
	"tools/call": "name", "tools/callSaga": "name", "prompts/get": "name", "resources/read": "uri",
}

// contradiction refuses a message of a dialect without the headers Mcp-Method and
// Mcp-Name that has them all the same, and with other values than its body. A
// gateway may have let it pass for what they say. What they say of a token is
// compared when that is open: see caller.named.
func contradiction(h http.Header, m *message) *refusal {
	if m.reply != nil {
		return nil
	}
	method, present, problem := headerValue(h, methodHeader)
	if present && problem == "" && method != m.method {
		problem = "is not what the body says"
	}
	if problem != "" {
		return mismatch(methodHeader, problem)
	}
	name, present, problem := decodedHeader(h, nameHeader)
	if member := namingMembers[m.method]; present && problem == "" && member != "" {
		if said, ok := unquote(jsonview.Get(m.params, member)); !ok || said != name {
			problem = "is not what the body says"
		}
	}
	return mismatch(nameHeader, problem)
}

// contradictoryBatch is contradiction for a batch, of which no header can tell.
func contradictoryBatch(h http.Header) *refusal {
	for _, name := range []string{methodHeader, nameHeader} {
		if len(h.Values(name)) > 0 {
			return mismatch(name, "is of one message, and this is a batch")
		}
	}
	return nil
}
