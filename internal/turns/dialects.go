package turns

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/internal/tokens"
	"github.com/mcpsaga/mcpsaga/steps"
)

// Request is what a turn needs to know of a client's message.
type Request struct {
	// Policy is the dialect's; if there is a Token, that of the token.
	Policy Policy
	// Asks is the policy of tokens that the client does not get with a part of the result, if
	// that is another one. Its zero value is Policy.
	Asks Policy
	// Method is what the client calls it, for the log and hooks; Dialect, by whose rules it is
	// served, for these.
	Method, Dialect string
	// Principal is who sent it, in a form in which no two look the same.
	Principal string
	// Sender is what else is known of who sent it, or nil.
	Sender Sender
	// Client is what the client can do.
	Client steps.Features
	// Notifier passes on what the tool tells meanwhile, or is nil.
	Notifier engine.Notifier
	// Program is what the message is for. Only the first turn needs it: later ones take it
	// from the token, which must be of the same if both are there.
	Program *engine.Program
	// Named is what else the message says that it is for, or empty: a header that a
	// gateway may have gone by.
	Named string
	// Token is what the client has brought; empty in the first turn.
	Token string
	// Arguments are the tool's, or nil: of the first turn, and of every turn if the
	// Policy is to have them sent again.
	Arguments json.RawMessage
	// Answers are to the questions of the last turn. In the first turn they come before
	// they are asked for, and are kept until they are.
	Answers []steps.Answer
	// Trace is the trace context that the message came with, or none. That of the first
	// turn goes with the token.
	Trace Trace
	// Elsewhere: who asks the questions of the saga has chosen a way that each allows. If not, its client is asked.
	Elsewhere bool
	// Parts: the dialect gives the client what a tool yields, [engine.Outcome.Yielded]. If not,
	// the saga continues at once, and its result begins with all that it has yielded.
	Parts bool
	// Secret is as in [engine.Call]; the memory sets it.
	Secret []byte
	// IdempotencyKey is what tells a first turn that is asked for again from another one
	// with the same arguments; empty is none. It is ignored where turns are not remembered.
	IdempotencyKey string
	// Closing ends when nothing is waited for any more: a saga that waits is where it was then, and so is its token. Nil
	// is never.
	Closing context.Context
	// Unwanted is the cause with which the context ends of a client that wants undone what its request has done, also
	// if it has a token; nil is none.
	Unwanted error

	turn *Turn // what is told of it to who watches; nil if nothing is
}

// Sender is who sent a request.
type Sender interface {
	// LedgerAccount is on whose account counts what a memory keeps of the sagas that the request begins; empty is its
	// principal's. session is that of the client, or empty.
	LedgerAccount(session string) string
	// Pause has the request leave its place among those that are worked on; back takes one again. read: nothing of its
	// message is read any more, so what that takes for its size is left for good.
	Pause(read bool) (back func())
}

func (q *Request) pause(read bool) (back func()) {
	if q.Sender == nil {
		return func() {}
	}
	return q.Sender.Pause(read)
}

// Account is LedgerAccount of the sender, if there is one.
func (q *Request) Account() string {
	if q.Sender == nil {
		return ""
	}
	return q.Sender.LedgerAccount("")
}

// undoes reports whether what a saga did is undone if its turn, which has the context ctx, breaks off.
func (q *Request) undoes(ctx context.Context) bool {
	return q.Policy.UndoBroken || q.Unwanted != nil && errors.Is(context.Cause(ctx), q.Unwanted)
}

func (q *Request) closes() bool { return q.Closing != nil && q.Closing.Err() != nil }

// Caller is who sent the message, and what that is.
func (q *Request) Caller() Caller { return Caller{q.Principal, q.Method, q.Dialect} }

// End is how a turn ended: suspended, for which Token is to be brought back, or with a
// result. A suspension without Steps is a pause: the client comes back by itself, for the rest
// of a result of which Yielded is a part, or at Wake.
type End struct {
	Token string
	// Policy is that of Token, and Expires is until when the token is good if it came with
	// Yielded.
	Policy  Policy
	Expires time.Time
	engine.Outcome
	// Wake is when the saga continues; the zero time is at once, or with the answers. A client
	// that comes earlier waits if that fits into the turn's time, and else gets the same pause
	// again.
	Wake time.Time
	// Gone is why the saga could not go on, so that what it did was undone; zero if it
	// could.
	Gone tokens.Reason
	// recorded: the turn was taken before, and this is what it was answered then.
	recorded bool
}

// Policy is how a dialect's clients go from one turn to the next.
type Policy struct {
	// Purpose separates tokens of policies with different rules: it is bound to them, so
	// that the token of one is not taken for that of another.
	Purpose string
	// Resent: the client sends the arguments in every turn, so the token has a digest of
	// them in their place; of answers it sends those to the last steps, and what else
	// comes is to be ignored.
	Resent bool
	// UndoBroken: the token stays in the server and the client has no other, so the request
	// that drives the saga is all that can take its next turn. If a turn breaks off, what
	// the saga did is undone at once. Elsewhere the client can take the turn again.
	UndoBroken bool
}

// The policies there are. They are never changed.
var (
	// Carried: the token has everything, and the client carries it.
	Carried = Policy{Purpose: "saga"}
	// Resent: the client carries the token and sends its request again.
	Resent = Policy{Purpose: "mrtr", Resent: true}
	// Held: the client is asked while its request is served, and has no token.
	Held = Policy{Purpose: "handshake", UndoBroken: true}
	// Asked is Held for a request that came with a token of the policy Paged: with that the client
	// can come back to where the saga stood, and is asked again.
	Asked = Policy{Purpose: Held.Purpose}
	// Paged: the client has a part of the result with the token, and sends its request again
	// for the next one, whatever the policy by which it is asked.
	Paged = Policy{Purpose: "resume", Resent: true}
	// Relayed: the client's model carries the token, and calls its tool again with what its user has said.
	Relayed = Policy{Purpose: "relay", Resent: true}
)
