package dialect

import (
	"encoding/json"
	"errors"
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/mcpsaga/mcpsaga/content"
	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/internal/jsonview"
	"github.com/mcpsaga/mcpsaga/internal/tokens"
	"github.com/mcpsaga/mcpsaga/internal/turns"
	"github.com/mcpsaga/mcpsaga/server/internal/wire"
)

// A tool that yields gives its result in parts (SEP-1003). The answer to a plain call is then
// the first one, with a token; the same call with that token is answered with the next one. No
// capability says that a client knows of this. So the token is in each of the places in which
// one may look for it, a model among them, and is taken from any of them.
const (
	// ResumeTokenMember and NextResumeTokenMember are where tokens are in _meta, of a request
	// and of a result.
	ResumeTokenMember     = "io.github.mcpsaga/resumeToken"
	NextResumeTokenMember = "io.github.mcpsaga/nextResumeToken"
	// ResumeTTLMember says in milliseconds how long a token is good: in the _meta of a result
	// from now, in that of a tool from when it is given.
	ResumeTTLMember = "io.github.mcpsaga/resumeTokenTtlMs"
	// RetryMember says in milliseconds when a client whose saga sleeps is to come back.
	RetryMember = "io.github.mcpsaga/retryAfterMs"
)

// Resumed is what a call of a tool says of the part that it is for.
type Resumed struct {
	// Token is the token of a later part, or empty.
	Token string
	// Knows: the client knows of tokens beside the arguments, so the result need not say what to
	// do with one.
	Knows bool
	// Arguments are those of the call without the token.
	Arguments jsontext.Value
}

// ReadResumed reads the token of a call with these arguments. takes: the tool takes one among them.
func ReadResumed(params jsontext.Value, takes bool, arguments jsontext.Value) (r Resumed, rerr *wire.Error) {
	r.Arguments = arguments
	var own []byte
	if takes { // else what is in the arguments is the tool's; an older revision may have had parts
		if own = jsonview.Get(arguments, engine.ResumeToken); own != nil {
			r.Arguments = With(arguments, engine.ResumeToken, nil)
		}
		if jsonview.Is(own, "") {
			own = nil // models fill in what they need not
		}
	}
	for i, place := range [...]struct {
		name  string
		value jsontext.Value
	}{
		{"params.resumeToken", jsonview.Get(params, engine.ResumeToken)},
		{"params._meta: " + ResumeTokenMember, jsonview.Get(params, "_meta", ResumeTokenMember)},
		{"params.arguments.resumeToken", own},
	} {
		if k := place.value.Kind(); k == jsontext.KindInvalid || k == 'n' {
			continue
		}
		token, ok := jsonview.String(place.value)
		switch {
		case !ok || token == "":
			return r, wire.NewError(wire.CodeInvalidParams, place.name+" must be the nextResumeToken of a result, a string")
		case r.Token != "" && r.Token != token:
			return r, wire.NewError(wire.CodeInvalidParams, "two different resume tokens were sent: send one of them, in params.resumeToken, params.arguments.resumeToken or params._meta")
		}
		r.Token, r.Knows = token, r.Knows || i < 2
	}
	return r, nil
}

// With returns an object in which the member with that name has another value, and is the last, or is not
// there if that is nil.
func With(object []byte, name string, value []byte) []byte {
	b := jsonview.Rewrite(object, func(member, v []byte) []byte {
		if string(member) == name {
			return nil
		}
		return v
	})
	if value == nil {
		return b
	}
	if b = b[:len(b)-1]; len(b) > 1 {
		b = append(b, ',')
	}
	b = append(append(wire.AppendString(b, name), ':'), value...)
	return append(b, '}')
}

// Turn has q take the turn that the call asks for. asks is the policy of the dialect's other
// tokens. It reports whether the call has a token.
func (r *Resumed) Turn(q *turns.Request, asks turns.Policy) bool {
	q.Parts = true
	if r.Token == "" {
		return false
	}
	q.Token, q.Policy, q.Asks = r.Token, turns.Paged, asks
	return true
}

// resumeText is what a client learns of a resume token that was refused, whatever the reason.
const resumeText = "the resumeToken is not valid here, or no longer, or the arguments are not those of the first call: call the tool again without it"

// Refused returns what the client learns of a call with a resume token that came to nothing: nil
// if it is as of any other call.
func (r *Resumed) Refused(end *turns.End, err error) *wire.Error {
	switch {
	case r.Token == "":
		return nil
	case errors.Is(err, tokens.ErrRejected):
		return wire.NewError(wire.CodeInvalidParams, resumeText)
	case err != nil || end.Gone == "":
		return nil
	}
	// What it did was undone, and the report says how that went.
	rerr := wire.NewError(wire.CodeInvalidParams, resumeText)
	if report := turns.UndoReport(end.Result); report != nil {
		rerr.Data, _ = wire.Marshal(map[string]any{engine.UndoMetaKey: report})
	}
	return rerr
}

// howToGoOn is what a model reads at the end of a part.
const howToGoOn = "There is more. To get the next part, call this tool again with the same arguments and in addition resumeToken: "

// Part is the result that holds a part, but for its nextResumeToken, which [AppendNextToken]
// adds.
func (h *Host) Part(end *turns.End, r *Resumed) *content.Result {
	part := &content.Result{Content: end.Yielded, Meta: map[string]any{
		NextResumeTokenMember: end.Token, ResumeTTLMember: max(end.Expires.Sub(h.Turns.Now()).Milliseconds(), 0),
	}}
	if !r.Knows {
		part.Content = append(end.Yielded[:len(end.Yielded):len(end.Yielded)], content.Text{
			Text: howToGoOn + end.Token, Annotations: &content.Annotations{Audience: []content.Role{content.Assistant}},
		})
	}
	return part
}

// AppendNextToken writes the member of a result that has the token, with the comma before it.
func AppendNextToken(b []byte, token string) []byte {
	b = append(append(b, `,"nextResumeToken":"`...), token...) // as in Suspended
	return append(b, '"')
}

// AppendRetryAfter writes the member of _meta that says in how many milliseconds a client is to
// come back whose saga sleeps until wake.
func (h *Host) AppendRetryAfter(b []byte, wake time.Time) []byte {
	wait := max(wake.Sub(h.Turns.Now())+time.Millisecond-1, 0)
	return strconv.AppendInt(append(b, `"`+RetryMember+`":`...), int64(wait/time.Millisecond), 10)
}

// listedSchema is the input schema of a tool as lists show it.
func listedSchema(t *engine.Program) json.RawMessage {
	if !t.Yields {
		return t.InputSchema
	}
	const property = `{"type":"string","description":"To get the next part of a result: the resumeToken that the last part ends with. All other arguments must be as in the first call."}`
	properties := With(jsonview.Get(t.InputSchema, "properties"), engine.ResumeToken, []byte(property))
	return json.RawMessage(With(t.InputSchema, "properties", properties))
}
