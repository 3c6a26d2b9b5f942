package turns

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"time"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/mcpsaga/mcpsaga/internal/jsonview"
	"github.com/mcpsaga/mcpsaga/internal/records"
	"github.com/mcpsaga/mcpsaga/steps"
)

// request is what is kept of a [Request] while its turn is claimed, so that somebody else can
// take the turn again, or find out and undo what it did. What the client sent is kept as
// bytes, as it need not be JSON.
type request struct {
	Purpose    string           `json:"purpose"`
	Resent     bool             `json:"resent,omitzero"`
	UndoBroken bool             `json:"undoBroken,omitzero"`
	Client     steps.Features   `json:"client"`
	Arguments  []byte           `json:"arguments,omitempty"`
	Answers    []recordedAnswer `json:"answers,omitempty"`
	Trace      []byte           `json:"trace,omitempty"`
	// Now is the time of the turn: a flow that is run again is told the same.
	Now time.Time `json:"now"`
	// Turn is the digest of the turn, if it is one that was begun: to undo it, it has to be
	// run again. Otherwise the request is only to undo.
	Turn []byte `json:"turn,omitempty"`
	// Base is where the turn is to be taken again from, if it went on without the client: its
	// answers were sent ahead, or are the server's model's, which would give others.
	Base *recordedBase `json:"base,omitzero"`
	// Undo is set when the saga is being undone after its turn has run. Then the turn is not to be
	// taken again: it would not find what is undone already.
	Undo *recordedUndo `json:"undo,omitzero"`
}

// recordedUndo is what is being undone, as a position that is sealed with basePolicy, and how the
// turn has ended but for that; nothing if it broke off.
type recordedUndo struct {
	Token    string `json:"token"`
	Response []byte `json:"response,omitempty"`
}

// recordedBase is a position, sealed with basePolicy, and the answers that it got.
type recordedBase struct {
	Token   string           `json:"token"`
	Answers []recordedAnswer `json:"answers"`
	Now     time.Time        `json:"now"`
}

// basePolicy is that of tokens that are only in records.
var basePolicy = Policy{Purpose: "ledger"}

type recordedAnswer struct {
	ID     string              `json:"id"`
	Result []byte              `json:"result,omitempty"`
	Error  *recordedClientFail `json:"error,omitzero"`
}

type recordedClientFail struct {
	Code    int64  `json:"code"`
	Message string `json:"message"`
	Data    []byte `json:"data,omitempty"`
}

func (r *Runner) requestOf(q *Request) request {
	kept := request{
		Now:     r.Now(),
		Purpose: q.Policy.Purpose, Resent: q.Policy.Resent, UndoBroken: q.Policy.UndoBroken,
		Client: q.Client, Arguments: q.Arguments, Trace: slices.Clone(q.Trace[:]),
	}
	kept.Answers = recordAnswers(q.Answers)
	return kept
}

func recordAnswers(list []steps.Answer) (kept []recordedAnswer) {
	for _, a := range list {
		answer := recordedAnswer{ID: a.StepID, Result: a.Result}
		if a.Error != nil {
			answer.Error = &recordedClientFail{a.Error.Code, a.Error.Message, a.Error.Data}
		}
		kept = append(kept, answer)
	}
	return kept
}

func (r *request) encode() ([]byte, error) {
	return jsonv2.Marshal(r, jsontext.AllowInvalidUTF8(true)) // from whoever takes any text
}

// decodeRequest returns the request that was kept in a claim.
func decodeRequest(raw []byte) (r request, err error) {
	if err := jsonv2.Unmarshal(raw, &r); err != nil {
		// What is done without it would not find what its turn did.
		return r, fmt.Errorf("%w: its request does not decode: %w", records.ErrUnreadable, err)
	}
	return r, nil
}

// answersOf returns answers that were recorded.
func answersOf(kept []recordedAnswer) (list []steps.Answer) {
	for _, a := range kept {
		answer := steps.Answer{StepID: a.ID, Result: a.Result}
		if a.Error != nil {
			answer.Error = &steps.ClientError{Code: a.Error.Code, Message: a.Error.Message, Data: a.Error.Data}
		}
		list = append(list, answer)
	}
	return list
}

// digestAnswers identifies the answers of a turn, whatever their spelling and order. Only
// those to steps that the saga waits for matter: of the others the engine makes sure that
// they make no difference.
func digestAnswers(waits []string, answers []steps.Answer) []byte {
	type part struct{ id, text string }
	var parts []part
	for _, a := range answers {
		if !slices.Contains(waits, a.StepID) {
			continue
		}
		text := "result " + canonical(a.Result)
		if a.Error != nil {
			text = fmt.Sprintf("error %d %q %s", a.Error.Code, a.Error.Message, canonical(a.Error.Data))
		}
		parts = append(parts, part{a.StepID, text})
	}
	slices.SortFunc(parts, func(a, b part) int {
		if c := strings.Compare(a.id, b.id); c != 0 {
			return c
		}
		return strings.Compare(a.text, b.text)
	})
	h := sha256.New()
	h.Write([]byte("mcpsaga answers 1"))
	for _, p := range slices.Compact(parts) {
		for _, field := range [...]string{p.id, p.text} {
			h.Write(binary.AppendUvarint(nil, uint64(len(field))))
			h.Write([]byte(field))
		}
	}
	return h.Sum(nil)
}

// canonical returns JSON in one spelling, and what is no JSON as it is.
func canonical(raw []byte) string {
	if text, err := jsonview.Canonical(raw, jsontext.CanonicalizeRawInts(false), jsontext.CanonicalizeRawFloats(false)); err == nil {
		return string(text)
	}
	return string(raw)
}
