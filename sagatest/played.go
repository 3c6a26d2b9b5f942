package sagatest

import (
	"encoding/json"
	"log/slog"

	jsonv2 "github.com/go-json-experiment/json"
	jsonv1 "github.com/go-json-experiment/json/v1"

	"github.com/mcpsaga/mcpsaga/content"
	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/internal/tasks"
	"github.com/mcpsaga/mcpsaga/internal/turns"
)

// Played is how a saga ended, as the client learnt it, and what happened on the way: in a
// play, or in one of the scenarios of a [Sweep].
type Played struct {
	// Scenario says what went on, in a sweep; empty in a play.
	Scenario string
	// Result is a tool's result. Messages are a prompt's, Contents a resource's; if it was
	// too late to cancel them, Result says so.
	Result   *content.Result
	Messages []content.Message
	Contents []content.ResourceContents
	// Err is why the saga failed, as the operator's log has it; the client does
	// not learn it. It is also set if the last turn failed as a whole. No client can take the
	// first turn again, so its effects are then undone and the saga has ended.
	Err error
	// Cancelled: the client cancelled the saga, and it was not too late for that.
	Cancelled bool
	// Suspended: the client left, or the last turn failed; the saga has not ended.
	Suspended bool
	// Rounds are the suspensions of which the client learnt, in order. A play that starts in
	// the middle has those after its start, and so has a saga of a [Journal].
	Rounds []Round
	// Calls are what the engine called, in order, in all turns.
	Calls []Call
	// Progress and Logs are what the tool sent the client meanwhile.
	Progress []Progress
	Logs     []Log

	out engine.Outcome // zero if the saga has not ended
}

// Round is a suspension: what the client was asked, all at once.
type Round struct {
	// Asked are the steps.
	Asked []Asked
	// Part is the part of the result that the client got, if it gets any.
	Part content.Blocks
	// Words are what the model reads in a host whose client asks nothing (see [Answer.Via]), in which TOKEN and LINK stand
	// for what is different each time. After each answer that is refused it reads why, and all of it again.
	Words []string
	// Token is what the client keeps and sends back.
	Token string

	awaits []tasks.Awaited // the events that the saga waits for
}

// Progress is what a tool said about how far it has come.
type Progress struct {
	// Done grows with each message; Total is 0 if it is unknown.
	Done, Total float64
	// Message is for people, or empty.
	Message string
}

// Log is what a tool wrote to the client's log.
type Log struct {
	// Level is how severe it is.
	Level slog.Level
	// Logger is the tool's name.
	Logger string
	// Data is the message: anything that encodes to JSON.
	Data any
}

// UndoReport says what became of a saga's effects, by their names, when it ended badly.
type UndoReport struct {
	// Undone were reversed, in this order, or found not to have happened. Outstanding
	// could not be reversed, among them Kept, which were not tried, as others build on
	// them.
	Undone, Outstanding, Kept []string
	// Final is the effect that cannot be reversed any more, or empty. Left are those before it, which stay, if
	// something was undone before that was found.
	Final string
	Left  []string
	// SagaToken is with what the client can try again what is outstanding.
	SagaToken string
}

// Good reports whether the saga ended with a result that is no error.
func (p *Played) Good() bool {
	if p.Suspended || p.Cancelled {
		return false
	}
	return p.Result != nil && !p.Result.IsError || p.out.Messages != nil || p.Contents != nil
}

// Text returns the texts of the result, one per line. What the engine says about
// undone effects is part of it.
func (p *Played) Text() string {
	if p.Result == nil {
		return ""
	}
	return p.Result.Content.Text()
}

// Undo returns the report about undone effects, or nil if the result has none.
func (p *Played) Undo() *UndoReport {
	u := turns.UndoReport(p.Result)
	if u == nil {
		return nil
	}
	return &UndoReport{u.Undone, u.Outstanding, u.Kept, u.Final, u.Left, u.SagaToken}
}

// Effects lists the calls by name, in order: "hold-room", "undo hold-room". Tries
// are listed one by one.
func (p *Played) Effects() []string {
	var names []string
	for _, c := range p.Calls {
		name := c.Effect
		if c.Undo {
			name = "undo " + name
		}
		names = append(names, name)
	}
	return names
}

// Asked returns the questions of all rounds by their ids, joined within a round.
func (p *Played) Asked() [][]string {
	var list [][]string
	for _, r := range p.Rounds {
		var ids []string
		for _, a := range r.Asked {
			ids = append(ids, a.ID)
		}
		list = append(list, ids)
	}
	return list
}

// Find returns how a question was asked last; its zero value if it was not. Give
// a step's ID, such as "city~2", for a certain time.
func (p *Played) Find(id string) Asked {
	var found Asked
	for _, r := range p.Rounds {
		for _, a := range r.Asked {
			if a.ID == id || a.Question == id {
				found = a
			}
		}
	}
	return found
}

// MaxToken returns the length of the longest token, in characters.
func (p *Played) MaxToken() int {
	n := 0
	for _, r := range p.Rounds {
		n = max(n, len(r.Token))
	}
	return n
}

// asJSON is all that the client learns at the end, for comparisons.
func (p *Played) asJSON() string {
	switch {
	case p.out.Messages != nil:
		return compact(p.out.Messages)
	case p.Contents != nil:
		return compact(p.Contents)
	case p.Result != nil:
		return compact(p.Result)
	}
	return ""
}

// compact returns v as JSON, which has one form for one value.
func compact(v any) string { return orWhyNot(json.Marshal(v)) }

// look writes down what a world looks like. A slice or map that is nil is as empty as
// one that had something: an author means the same by both.
func look(world any) string {
	return orWhyNot(jsonv2.Marshal(world, jsonv1.DefaultOptionsV1(), jsonv2.FormatNilSliceAsNull(false), jsonv2.FormatNilMapAsNull(false)))
}

// unencodable begins what is written in place of JSON.
const unencodable = "cannot be encoded: "

func orWhyNot(encoded []byte, err error) string {
	if err != nil {
		return unencodable + err.Error()
	}
	return string(encoded)
}
