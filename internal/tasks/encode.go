package tasks

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"time"

	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/internal/fields"
	"github.com/mcpsaga/mcpsaga/internal/records"
	"github.com/mcpsaga/mcpsaga/internal/tokens"
	"github.com/mcpsaga/mcpsaga/internal/turns"
	"github.com/mcpsaga/mcpsaga/steps"
)

// What a record has only as bytes is encoded here, by fields. Their numbers are never used
// again.

// request is what a task was begun with.
type request struct {
	method    string
	client    steps.Features
	arguments json.RawMessage // nil if the position has them
	trace     turns.Trace
	// adopted identifies the turn of a saga, which came after so many others, that the task
	// goes on from; nil if that has no record.
	adopted []byte
	after   uint32
	dialect string // by whose rules it came
}

// fields are those of a request. What has another form in the record is apart.
func (r *request) fields(client *uint64, trace *[]byte) fields.List {
	return fields.List{1: &r.method, client, (*[]byte)(&r.arguments), trace, &r.adopted, &r.after, &r.dialect}
}

// caller is who began a task, with that request.
func (r *request) caller(t *records.Task) turns.Caller {
	return turns.Caller{Principal: t.Principal, Method: r.method, Dialect: r.dialect}
}

func (r *request) encode() []byte {
	client := engine.PackFeatures(r.client)
	var trace []byte
	if r.trace != (turns.Trace{}) {
		trace = r.trace[:]
	}
	return r.fields(&client, &trace).Append(nil, 0)
}

func decodeRequest(b []byte) (r request, err error) {
	var client uint64
	var trace []byte
	_, err = r.fields(&client, &trace).Read(b)
	r.client = engine.UnpackFeatures(client)
	copy(r.trace[:], trace)
	return r, err
}

func positionFields(p *engine.Position, e *engine.Encoded) fields.List {
	return fields.List{1: &p.Turn, &p.Tool, &p.Revision, &p.Deadline, &e.Body, &e.State, &e.Effects, &e.Secrets}
}

// encodePosition leaves out the saga's id, which the record has, and the arguments, if the
// request has them.
func encodePosition(p *engine.Position, withArguments bool) []byte {
	own := *p
	if !withArguments {
		own.DropArguments()
	}
	e := own.Encode()
	return positionFields(&own, &e).Append(nil, 0)
}

// decodePosition returns nil for none.
func decodePosition(b []byte, saga [16]byte) (*engine.Position, error) {
	if len(b) == 0 {
		return nil, nil
	}
	p := &engine.Position{ID: saga}
	var e engine.Encoded
	_, err := positionFields(p, &e).Read(b)
	if err == nil {
		err = p.Restore(e)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: a task's position does not decode: %w", records.ErrUnreadable, err)
	}
	return p, nil
}

// encodeList writes fields of one number, which decodeList does not look at.
func encodeList[T any](list []T, encode func(*T) []byte) (b []byte) {
	for i := range list {
		b = fields.AppendBytes(b, 1, encode(&list[i]))
	}
	return b
}

func decodeList[T any](b []byte, decode func([]byte) (T, error)) (list []T, err error) {
	for _, v := range fields.All(b, &err) {
		one, wrong := decode(v)
		if wrong != nil {
			return nil, wrong
		}
		list = append(list, one)
	}
	return list, err
}

func encodeQuestions(list []steps.Step) []byte       { return encodeList(list, encodeStep) }
func decodeQuestions(b []byte) ([]steps.Step, error) { return decodeList(b, decodeStep) }
func encodeAnswers(list []steps.Answer) []byte       { return encodeList(list, encodeAnswer) }
func decodeAnswers(b []byte) ([]steps.Answer, error) { return decodeList(b, decodeAnswer) }

func stepFields(s *steps.Step, needs *uint64) fields.List {
	return fields.List{1: &s.ID, (*uint8)(&s.Kind), (*[]byte)(&s.Params), needs}
}

func encodeStep(s *steps.Step) []byte {
	needs := engine.PackFeatures(s.Needs)
	return stepFields(s, &needs).Append(nil, 0)
}

func decodeStep(b []byte) (s steps.Step, err error) {
	var needs uint64
	_, err = stepFields(&s, &needs).Read(b)
	s.Needs = engine.UnpackFeatures(needs)
	return s, err
}

func errorFields(e *steps.ClientError) fields.List {
	return fields.List{1: &e.Code, &e.Message, (*[]byte)(&e.Data)}
}

func encodeAnswer(a *steps.Answer) []byte {
	if a.Error == nil {
		return fields.List{1: &a.StepID, (*[]byte)(&a.Result)}.Append(nil, 0)
	}
	failed := errorFields(a.Error).Append(nil, 0)
	return append(fields.List{1: &a.StepID, 3: &failed}.Append(nil, 2), 4, 0) // that there is an error
}

func decodeAnswer(b []byte) (a steps.Answer, err error) {
	var failed, isError []byte
	_, err = fields.List{1: &a.StepID, (*[]byte)(&a.Result), &failed, &isError}.Read(b)
	if err == nil && (failed != nil || isError != nil) {
		a.Error = new(steps.ClientError)
		_, err = errorFields(a.Error).Read(failed)
	}
	return a, err
}

func progressFields(p *engine.Progress) fields.List {
	return fields.List{1: &p.Done, &p.Total, &p.Message}
}

// encodeProgress begins with a field that is empty: progress that says nothing is progress all the same.
func encodeProgress(p *engine.Progress) []byte {
	return progressFields(p).Append([]byte{9, 0}, 0)
}

// decodeProgress returns nil for none.
func decodeProgress(b []byte) (*engine.Progress, error) {
	if len(b) == 0 {
		return nil, nil
	}
	p := new(engine.Progress)
	_, err := progressFields(p).Read(b)
	return p, err
}

// eventParts are what an event has in another form than its record.
type eventParts struct {
	level                             uint64
	logger                            string
	progress, data, content, question []byte
}

func (e *Event) fields(p *eventParts) fields.List {
	return fields.List{1: (*uint8)(&e.Kind), &e.At, &p.progress, &p.level, &p.logger, &p.data, &p.content, &p.question} // 9 was once what dialects told
}

// encode encodes an event, but for its number.
func (e *Event) encode() (_ []byte, err error) {
	var p eventParts
	if e.Progress != nil {
		p.progress = encodeProgress(e.Progress)
	}
	if e.Log != nil {
		p.level, p.logger = uint64(e.Log.Level+1<<20), e.Log.Logger // levels may be negative
		p.data, _ = e.Log.Data.(json.RawMessage)
	}
	if e.Content != nil {
		if p.content, err = e.Content.MarshalJSON(); err != nil {
			return nil, err
		}
	}
	if e.Question != nil {
		p.question = encodeStep(e.Question)
	}
	return e.fields(&p).Append(nil, 0), nil
}

func decodeEvent(n uint64, b []byte) (e Event, err error) {
	e.N = n
	var p eventParts
	if _, err = e.fields(&p).Read(b); err != nil {
		return e, err
	}
	if p.level != 0 {
		e.Log = &engine.Log{Level: slog.Level(p.level) - 1<<20, Logger: p.logger}
		if p.data != nil {
			e.Log.Data = json.RawMessage(p.data)
		}
	}
	if e.Progress, err = decodeProgress(p.progress); err == nil && p.content != nil {
		err = e.Content.UnmarshalJSON(p.content)
	}
	if err == nil && p.question != nil {
		e.Question = new(steps.Step)
		*e.Question, err = decodeStep(p.question)
	}
	return e, err
}

// turnOf is the turn that comes next in a task, but for who hears of it.
func turnOf(t *records.Task, p *engine.Program, now time.Time) (turn turns.TaskTurn, err error) {
	asked, err := decodeRequest(t.Request)
	if err != nil {
		return turn, err
	}
	turn = turns.TaskTurn{
		Caller: asked.caller(t), Program: p, Saga: tokens.ID(t.Saga), Arguments: asked.arguments, Client: asked.client, Trace: asked.trace, Now: now,
	}
	turn.Adopted = asked.adopted
	if turn.Answers, err = decodeAnswers(t.Answers); err == nil {
		turn.Position, err = decodePosition(t.Position, t.Saga)
	}
	return turn, err
}
