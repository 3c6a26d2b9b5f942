package tasks

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"math"
	"time"

	"github.com/mcpsaga/mcpsaga/content"
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
}

func (r *request) encode() []byte {
	b := fields.AppendBytes(nil, 1, r.method)
	b = fields.AppendUint(b, 2, engine.PackFeatures(r.client))
	b = fields.AppendBytes(b, 3, r.arguments)
	if r.trace != (turns.Trace{}) {
		b = fields.AppendBytes(b, 4, r.trace[:])
	}
	b = fields.AppendBytes(b, 5, r.adopted)
	return fields.AppendUint(b, 6, uint64(r.after))
}

func decodeRequest(b []byte) (r request, err error) {
	for field, v := range fields.All(b, &err) {
		switch field {
		case 1:
			r.method = string(v)
		case 2:
			r.client = engine.UnpackFeatures(v.Uint())
		case 3:
			r.arguments = json.RawMessage(v)
		case 4:
			copy(r.trace[:], v)
		case 5:
			r.adopted = v
		case 6:
			r.after = uint32(v.Uint())
		}
	}
	return r, err
}

// encodePosition leaves out the saga's id, which the record has, and the arguments, if the
// request has them.
func encodePosition(p *engine.Position, withArguments bool) []byte {
	own := *p
	if !withArguments {
		own.DropArguments()
	}
	e := own.Encode()
	b := make([]byte, 0, len(e.Body)+len(e.State)+len(e.Effects)+len(e.Secrets)+len(p.Tool)+64)
	b = fields.AppendUint(b, 1, uint64(p.Turn))
	b = fields.AppendBytes(b, 2, p.Tool)
	b = fields.AppendUint(b, 3, uint64(p.Revision))
	b = fields.AppendTime(b, 4, p.Deadline)
	b = fields.AppendBytes(b, 5, e.Body)
	b = fields.AppendBytes(b, 6, e.State)
	b = fields.AppendBytes(b, 7, e.Effects)
	return fields.AppendBytes(b, 8, e.Secrets)
}

// decodePosition returns nil for none.
func decodePosition(b []byte, saga [16]byte) (*engine.Position, error) {
	if len(b) == 0 {
		return nil, nil
	}
	p := &engine.Position{ID: saga}
	var e engine.Encoded
	var err error
	for field, v := range fields.All(b, &err) {
		switch field {
		case 1:
			p.Turn = uint32(v.Uint())
		case 2:
			p.Tool = string(v)
		case 3:
			p.Revision = uint32(v.Uint())
		case 4:
			p.Deadline = v.Time()
		case 5:
			e.Body = v
		case 6:
			e.State = v
		case 7:
			e.Effects = v
		case 8:
			e.Secrets = v
		}
	}
	if err == nil {
		err = p.Restore(e)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: a task's position does not decode: %w", records.ErrUnreadable, err)
	}
	return p, nil
}

func encodeStep(b []byte, s *steps.Step) []byte {
	b = fields.AppendBytes(b, 1, s.ID)
	b = fields.AppendUint(b, 2, uint64(s.Kind))
	b = fields.AppendBytes(b, 3, s.Params)
	return fields.AppendUint(b, 4, engine.PackFeatures(s.Needs))
}

func decodeStep(b []byte) (s steps.Step, err error) {
	for field, v := range fields.All(b, &err) {
		switch field {
		case 1:
			s.ID = string(v)
		case 2:
			s.Kind = steps.Kind(v.Uint())
		case 3:
			s.Params = json.RawMessage(v)
		case 4:
			s.Needs = engine.UnpackFeatures(v.Uint())
		}
	}
	return s, err
}

func encodeQuestions(list []steps.Step) (b []byte) {
	for i := range list {
		b = fields.AppendBytes(b, 1, encodeStep(nil, &list[i]))
	}
	return b
}

func decodeQuestions(b []byte) (list []steps.Step, err error) {
	for _, v := range fields.All(b, &err) {
		s, wrong := decodeStep(v)
		if wrong != nil {
			return nil, wrong
		}
		list = append(list, s)
	}
	return list, err
}

func encodeAnswers(list []steps.Answer) (b []byte) {
	for i := range list {
		a := &list[i]
		one := fields.AppendBytes(nil, 1, a.StepID)
		if a.Error == nil {
			one = fields.AppendBytes(one, 2, a.Result)
		} else {
			failed := fields.AppendUint(nil, 1, uint64(a.Error.Code)) // two's complement
			failed = fields.AppendBytes(failed, 2, a.Error.Message)
			failed = fields.AppendBytes(failed, 3, a.Error.Data)
			one = append(fields.AppendBytes(one, 3, failed), 4, 0) // that there is one
		}
		b = fields.AppendBytes(b, 1, one)
	}
	return b
}

func decodeAnswers(b []byte) (list []steps.Answer, err error) {
	for _, v := range fields.All(b, &err) {
		var a steps.Answer
		var wrong error
		failed := func() *steps.ClientError {
			if a.Error == nil {
				a.Error = new(steps.ClientError)
			}
			return a.Error
		}
		for field, v := range fields.All(v, &wrong) {
			switch field {
			case 1:
				a.StepID = string(v)
			case 2:
				a.Result = json.RawMessage(v)
			case 3:
				for field, v := range fields.All(v, &wrong) {
					switch field {
					case 1:
						failed().Code = int64(v.Uint())
					case 2:
						failed().Message = string(v)
					case 3:
						failed().Data = json.RawMessage(v)
					}
				}
			case 4:
				failed()
			}
		}
		if wrong != nil {
			return nil, wrong
		}
		list = append(list, a)
	}
	return list, err
}

func encodeProgress(p engine.Progress) []byte {
	// One that says nothing is one all the same.
	b := append(make([]byte, 0, 32+len(p.Message)), 9, 0)
	b = fields.AppendUint(b, 1, math.Float64bits(p.Done))
	b = fields.AppendUint(b, 2, math.Float64bits(p.Total))
	return fields.AppendBytes(b, 3, p.Message)
}

// decodeProgress returns nil for none.
func decodeProgress(b []byte) (*engine.Progress, error) {
	if len(b) == 0 {
		return nil, nil
	}
	p := new(engine.Progress)
	var err error
	for field, v := range fields.All(b, &err) {
		switch field {
		case 1:
			p.Done = math.Float64frombits(v.Uint())
		case 2:
			p.Total = math.Float64frombits(v.Uint())
		case 3:
			p.Message = string(v)
		}
	}
	return p, err
}

// encode encodes an event, but for its number.
func (e *Event) encode() ([]byte, error) {
	b := fields.AppendUint(nil, 1, uint64(e.Kind))
	b = fields.AppendTime(b, 2, e.At)
	if e.Progress != nil {
		b = fields.AppendBytes(b, 3, encodeProgress(*e.Progress))
	}
	if e.Log != nil {
		b = fields.AppendUint(b, 4, uint64(e.Log.Level+1<<20)) // levels may be negative
		b = fields.AppendBytes(b, 5, e.Log.Logger)
		data, _ := e.Log.Data.(json.RawMessage)
		b = fields.AppendBytes(b, 6, data)
	}
	if e.Content != nil {
		blocks, err := e.Content.MarshalJSON()
		if err != nil {
			return nil, err
		}
		b = fields.AppendBytes(b, 7, blocks)
	}
	if e.Question != nil {
		b = fields.AppendBytes(b, 8, encodeStep(nil, e.Question))
	}
	return b, nil // 9 was once what dialects told
}

func decodeEvent(n uint64, b []byte) (e Event, err error) {
	e.N = n
	log := func() *engine.Log {
		if e.Log == nil {
			e.Log = new(engine.Log)
		}
		return e.Log
	}
	var wrong error
	for field, v := range fields.All(b, &err) {
		switch field {
		case 1:
			e.Kind = EventKind(v.Uint())
		case 2:
			e.At = v.Time()
		case 3:
			e.Progress, wrong = decodeProgress(v)
		case 4:
			log().Level = slog.Level(v.Uint()) - 1<<20
		case 5:
			log().Logger = string(v)
		case 6:
			log().Data = json.RawMessage(v)
		case 7:
			e.Content = content.Blocks{}
			wrong = e.Content.UnmarshalJSON(v)
		case 8:
			var s steps.Step
			s, wrong = decodeStep(v)
			e.Question = &s
		}
		if wrong != nil {
			return e, wrong
		}
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
		Method: asked.method, Program: p, Saga: tokens.ID(t.Saga), Arguments: asked.arguments, Client: asked.client, Trace: asked.trace, Now: now,
	}
	turn.Adopted = asked.adopted
	if turn.Answers, err = decodeAnswers(t.Answers); err == nil {
		turn.Position, err = decodePosition(t.Position, t.Saga)
	}
	return turn, err
}
