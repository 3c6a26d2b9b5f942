package async

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/internal/jsonview"
	"github.com/mcpsaga/mcpsaga/internal/tasks"
	"github.com/mcpsaga/mcpsaga/server/internal/dialect"
	"github.com/mcpsaga/mcpsaga/server/internal/wire"
	"github.com/mcpsaga/mcpsaga/steps"
)

// In a session an operation asks by requests when the client looks at it; their _operation says which one it is. Their ids are made
// of the operation's id and the question's: an answer finds its question on any replica, and after a restart.

// questionID is the id of the request that asks a question.
func questionID(operation, question string) uint64 {
	h := sha256.Sum256([]byte(operation + "\x00" + question)) // the first has none in it
	return dialect.LeastQuestion + binary.BigEndian.Uint64(h[:])%dialect.LeastQuestion
}

// ask sends what the client was not asked in this session and can be asked, and takes back what needs no answer any more.
func (d *async) ask(x *dialect.Exchange, t *tasks.Task, token string) {
	c := x.Caller
	if c.Asked == nil || x.Way == nil {
		return
	}
	open := make(map[uint64]bool, len(t.Questions))
	for _, q := range t.Questions {
		open[questionID(t.ID, q.ID)] = true
	}
	for _, id := range c.Asked.About(token) {
		if !open[id] {
			c.Asked.Remove(id)
			method, params := dialect.Cancellation(strconv.AppendUint(nil, id, 10), errAnswered)
			x.Way.Notify(method, within(params, token))
		}
	}
	poster, ok := x.Way.(dialect.Poster)
	if !ok || t.Cancelling {
		return
	}
	for _, q := range t.Questions {
		id := questionID(t.ID, q.ID)
		if !c.Features.Has(q.Needs) {
			continue
		}
		method, params, err := dialect.RequestMethods[q.Kind], q.Params, error(nil)
		if c.Question != nil {
			method, params, err = c.Question(q)
		}
		if err != nil || !c.Asked.Add(id, token) {
			continue
		}
		if !poster.Post(id, method, within(params, token)) {
			c.Asked.Remove(id)
			continue
		}
		c.Posted = append(c.Posted, id)
	}
}

var errAnswered = errors.New("the answer is not needed any more")

// within adds to the parameters of a message that it belongs to an operation.
func within(params json.RawMessage, token string) json.RawMessage {
	b := append(wire.AppendString([]byte(`{"_operation":{"token":`), token), '}')
	if len(params) > 2 { // it has members
		b = append(b, ',')
		return append(b, params[1:]...)
	}
	return append(b, '}')
}

// Answered implements [dialect.Guest]. An answer names its operation, but for an error, which has no place for that.
func (d *async) Answered(ctx context.Context, x *dialect.Exchange, id uint64, about string, a steps.Answer) (taken bool, rerr *wire.Error) {
	token := about
	if a.Error == nil {
		said, ok := jsonview.String(jsonview.Get(a.Result, "_operation", "token"))
		switch {
		case about == "" && !ok:
			return false, nil
		case about != "" && said != about:
			return true, wire.NewError(wire.CodeInvalidParams, "result._operation.token must be that of the question, as it was in its params")
		}
		token = said
		a.Result = plain(a.Result)
	}
	if token == "" {
		return false, nil
	}
	t, _, err := d.find(ctx, x, token)
	if errors.Is(err, tasks.ErrNotFound) {
		return about != "", nil
	}
	if err != nil {
		return true, d.translate(ctx, x, err)
	}
	i := slices.IndexFunc(t.Questions, func(q steps.Step) bool { return questionID(t.ID, q.ID) == id })
	if i < 0 {
		return about != "", nil // it is answered already
	}
	a.StepID = t.Questions[i].ID
	if _, err := d.Tasks.Answer(ctx, x.Principal, t.ID, []steps.Answer{a}); err != nil {
		return true, d.translate(ctx, x, err)
	}
	return true, nil
}

// plain is an answer without the operation that it names.
func plain(result []byte) json.RawMessage {
	return jsonview.Rewrite(result, func(name, v []byte) []byte {
		if string(name) == "_operation" {
			return nil
		}
		return v
	})
}

// answer gives an operation the answers to what tools/async/status has shown.
func (d *async) answer(ctx context.Context, x *dialect.Exchange, p *engine.Program, token string, responses jsontext.Value) ([]byte, error) {
	if responses.Kind() != '{' {
		return nil, wire.WrongParam("/inputResponses")
	}
	var list []steps.Answer
	for key, v := range jsonview.Members(responses) {
		if jsontext.Value(v).Kind() != '{' {
			return nil, wire.NewError(wire.CodeInvalidParams, "every member of params.inputResponses must be a result object")
		}
		list = append(list, steps.Answer{StepID: string(key), Result: plain(v)})
	}
	slices.SortFunc(list, func(a, b steps.Answer) int { return strings.Compare(a.StepID, b.StepID) })
	t, n, err := d.find(ctx, x, token)
	if err != nil {
		return nil, err
	}
	if t.Program != nil && t.Program.Name != p.Name {
		return nil, wire.NewError(wire.CodeInvalidParams, "the operation is of another tool")
	}
	if t, err = d.Tasks.Answer(ctx, x.Principal, t.ID, list); err != nil {
		return nil, err
	}
	return d.begun(t, &n, ""), nil
}
