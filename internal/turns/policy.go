package turns

// Policy is how a dialect's clients go from one turn to the next.
type Policy struct {
	// Purpose separates tokens of policies with different rules: it is bound to them, so
	// that the token of one is not taken for that of another.
	Purpose string
	// Resent: the client sends the arguments in every turn, so the token has a digest of
	// them in their place; of answers it sends those to the last steps, and what else
	// comes is to be ignored.
	Resent bool
	// UndoBroken: the token stays in the server, so the request that drives the saga is
	// all that can take its next turn. If a turn breaks off, what the saga did is undone
	// at once. Elsewhere the client can take the turn again.
	UndoBroken bool
}

// The policies there are. They are never changed.
var (
	// Carried: the token has everything, and the client carries it.
	Carried = Policy{Purpose: "saga"}
	// Resent: the client carries the token and sends its request again.
	Resent = Policy{Purpose: "mrtr", Resent: true}
	// Held: the client is asked while its request is served, and never sees a token.
	Held = Policy{Purpose: "handshake", UndoBroken: true}
)
