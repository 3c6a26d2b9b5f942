// Package audit writes down who did what by which tool and with which outcome: one JSON object on each line.
//
//	file, err := os.OpenFile("audit.jsonl", os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
//	s, err := server.New(server.Options{Hooks: []server.Hooks{audit.New(file, audit.Options{}).Hooks()}, ...})
//
// A server writes what it does itself, so all replicas together have all of it. With a ledger, "saga audit" prints the
// same from there, for all replicas, as long as sagas are remembered. No line has what was said: arguments and answers
// appear as digests if there is a key, and else not at all.
package audit

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"log/slog"
	"strings"
	"time"

	"github.com/mcpsaga/mcpsaga/internal/ident"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server"
)

// Record is a line.
type Record struct {
	// Time is when it ended, and Saga its id in hexadecimal: empty if a request was refused that names none.
	Time time.Time `json:"time"`
	Saga string    `json:"saga,omitempty"`
	// N is the number of the event in the log of the saga; 0 if a server says what it does itself.
	N uint64 `json:"n,omitempty"`
	// Turn counts the turns of the saga from 1; 0 in what a ledger has.
	Turn int `json:"turn,omitempty"`
	// Act is what was done. A turn is "call", "resume" or "cancel", or "undo" if the server undoes the saga by itself; a
	// try of an effect is "effect" or "undo effect". What a ledger has is "begun", "asked", "answered", "effects",
	// "turn" (one has ended; Effects are all so far if a client drives the saga), "cancelled", "undoing", "undone", "not
	// undone" or "ended", and "undo asked" for what an operator wants.
	Act string `json:"act"`
	// Kind is "tool", "prompt" or "resource", and Name its name.
	Kind string `json:"kind,omitempty"`
	Name string `json:"name,omitempty"`
	// Caller is for whom it was done; nil is an anonymous one. Remote is the address of the request, perhaps a proxy's.
	Caller *Caller `json:"caller,omitempty"`
	Remote string  `json:"remote,omitempty"`
	// Method is that of the request.
	Method string `json:"method,omitempty"`
	// Arguments is the digest of the arguments of a first turn.
	Arguments string `json:"arguments,omitempty"`
	// Answers are those that the turn has taken, of a ledger's sagas that clients drive only those of others, and Asked the ids of the questions that it has asked.
	Answers []Answer `json:"answers,omitempty"`
	Asked   []string `json:"asked,omitempty"`
	// Outcome and Reason are those of [server.TurnInfo]. Of an effect, the outcome is "done" or "failed"; of what a ledger has
	// ended, it may be "not undone".
	Outcome string `json:"outcome,omitempty"`
	Reason  string `json:"reason,omitempty"`
	// Effects are the names of effects, Key is the idempotency key of one that was tried, and Attempt counts the tries.
	Effects []string `json:"effects,omitempty"`
	Key     string   `json:"key,omitempty"`
	Attempt int      `json:"attempt,omitempty"`
}

// Caller is who calls: its fields are those of [saga.Caller].
type Caller struct {
	Issuer  string `json:"issuer,omitempty"`  // who vouches for the subject
	Subject string `json:"subject,omitempty"` // the user
	Client  string `json:"client,omitempty"`  // the client application
}

func callerOf(c saga.Caller) *Caller {
	if c.Issuer == "" && c.Subject == "" && c.Client == "" {
		return nil
	}
	return &Caller{Issuer: c.Issuer, Subject: c.Subject, Client: c.Client}
}

// Answer is an answer to a question.
type Answer struct {
	// Question is its id.
	Question string `json:"question"`
	// By is who gave it if that was not the client: "person NAME from ADDRESS", "event", or the route "app", "page" or "relay".
	By string `json:"by,omitempty"`
	// Digest is that of the answer.
	Digest string `json:"digest,omitempty"`
}

// Digest is what stands for a text in a record: half of its HMAC-SHA-256, in hexadecimal. It is empty without a key, as
// what is short could be guessed.
func Digest(key, text []byte) string {
	if len(key) == 0 || len(text) == 0 {
		return ""
	}
	h := hmac.New(sha256.New, key)
	h.Write(text)
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// Options adjust a [Log]. The zero value is ready to use.
type Options struct {
	// Key makes digests: the same text has the same digest in all logs with the key. It should have 32 random bytes.
	Key []byte
	// Logger hears when lines cannot be written: at once, and then each minute. Default: [slog.Default].
	Logger *slog.Logger
}

// Hooks are for a server, whose turns and effects are then written. They should be the last, as what hooks before them
// refuse is no turn.
func (l *Log) Hooks() server.Hooks { return server.Hooks{Turn: l.turn, Effect: l.effect} }

func (l *Log) turn(ctx context.Context, t *server.TurnInfo, next func(context.Context) error) error {
	err := next(ctx)
	r := l.of(t)
	r.Act, r.Arguments, r.Asked, r.Outcome, r.Reason = t.Action, Digest(l.key, t.Arguments), t.Asked, t.Outcome, t.Reason
	for _, a := range t.Answers {
		if !canBeAsked(a.StepID) {
			continue
		}
		r.Answers = append(r.Answers, Answer{Question: a.StepID, By: a.By, Digest: Digest(l.key, a.Result)})
	}
	l.write(ctx, &r)
	return err
}

// canBeAsked reports whether a question can have an id, as clients write what they like: a name, and how often it was asked.
func canBeAsked(id string) bool {
	counts := strings.TrimLeftFunc(id, func(r rune) bool { return r != '#' && r != '~' })
	return ident.Valid(strings.TrimSuffix(id, counts)) && len(counts) <= 32 && strings.Trim(counts, "#~0123456789") == ""
}

func (l *Log) effect(ctx context.Context, e *server.EffectInfo, next func(context.Context) error) error {
	err := next(ctx)
	var r Record
	if e.Turn != nil {
		r = l.of(e.Turn)
	}
	r.Act, r.Effects, r.Key, r.Attempt, r.Outcome = "effect", []string{e.Name}, string(e.Key), e.Attempt, "done"
	if e.Undo {
		r.Act = "undo effect"
	}
	if err != nil {
		r.Outcome = "failed"
	}
	l.write(ctx, &r)
	return err
}

// of begins a record of a turn.
func (l *Log) of(t *server.TurnInfo) Record {
	r := Record{Turn: t.Turn, Kind: t.Kind, Name: t.Name}
	if t.Saga != (saga.ID{}) {
		r.Saga = t.Saga.String()
	}
	if q := t.Request; q != nil {
		r.Caller, r.Remote, r.Method = callerOf(q.Caller), q.Remote, q.Method
	}
	return r
}
