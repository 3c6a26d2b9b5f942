package apps

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/mcpsaga/mcpsaga/content"
	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/internal/jsonview"
	"github.com/mcpsaga/mcpsaga/internal/relay"
	"github.com/mcpsaga/mcpsaga/internal/tasks"
	"github.com/mcpsaga/mcpsaga/server/internal/dialect"
	"github.com/mcpsaga/mcpsaga/server/internal/elsewhere"
	"github.com/mcpsaga/mcpsaga/server/internal/wire"
	"github.com/mcpsaga/mcpsaga/steps"
)

// settleTime is for how long a form waits for what comes of an answer, before it reads that the tool works. Then it asks
// again: hosts limit how long a call may take.
const settleTime = 5 * time.Second

// question is a question as the form sees it.
type question struct {
	ID string `json:"id"`
	// Mode is how it is answered: by a "form" or a "url" that is shown, on a "page" of the server's, or in the "chat".
	Mode    string          `json:"mode"`
	Message string          `json:"message"`
	Schema  json.RawMessage `json:"schema,omitzero"`
	URL     string          `json:"url,omitzero"`
}

// shown is what the form learns of a call.
type shown struct {
	Status string `json:"status"`
	Token  string `json:"resumeToken,omitzero"`
	Tool   string `json:"tool,omitzero"`
	Title  string `json:"title,omitzero"`
	// Held: the model's call waits for its end.
	Held bool `json:"held"`
	// Note tells the user how it is, and Sentence tells the model what to do.
	Note      string     `json:"note,omitzero"`
	Sentence  string     `json:"sentence,omitzero"`
	Questions []question `json:"questions,omitzero"`
	// Refused says of answers why they were not taken, by the ids of the questions.
	Refused map[string]string `json:"refused,omitzero"`
}

// look is one call of a form's.
type look struct {
	*Apps
	*dialect.Exchange
	// asked is what the form knows, and brings.
	asked struct {
		Frame       string                    `json:"frame"`
		ResumeToken string                    `json:"resumeToken"`
		Tool        string                    `json:"tool"`
		Arguments   jsontext.Value            `json:"arguments"`
		Answers     map[string]jsontext.Value `json:"answers"`
	}
	task    *tasks.Task
	program *engine.Program // as it was found: a newer server may have gone on with the task since
	given   []steps.Answer  // the answers that were taken of this
	late    bool            // others were faster
	refused map[string]string
}

// Call answers a call of the form's tool.
func (a *Apps) Call(ctx context.Context, x *dialect.Exchange, arguments jsontext.Value) (*content.Result, error) {
	l := &look{Apps: a, Exchange: x, refused: make(map[string]string)}
	if arguments != nil {
		if rerr := wire.DecodeParams(arguments, &l.asked); rerr != nil {
			return nil, rerr
		}
	}
	if err := l.find(ctx); err != nil {
		return nil, err
	}
	if l.task == nil {
		return result(&shown{Status: "none"}), nil
	}
	if len(l.asked.Answers) > 0 {
		if err := l.answer(ctx); err != nil {
			return nil, err
		}
	}
	if err := l.settle(ctx); err != nil {
		return nil, err
	}
	s, err := l.shown(ctx)
	return result(s), err
}

// result has the same in its text, for hosts that pass nothing else on.
func result(s *shown) *content.Result {
	raw, _ := wire.Marshal(s) // strings and checked JSON always encode
	r := content.Resultf("%s", raw)
	r.StructuredContent = raw
	return r
}

// find finds the call, and notes that the form shows it.
func (l *look) find(ctx context.Context) (err error) {
	id := l.asked.ResumeToken
	if id == "" {
		var arguments json.RawMessage
		if l.asked.Arguments.Kind() == '{' {
			arguments = json.RawMessage(l.asked.Arguments)
		}
		if id, err = l.Find(ctx, l.Exchange, l.asked.Frame, l.asked.Tool, arguments); err != nil {
			return err
		}
	}
	if !dialect.OwnTaskID(id) {
		return nil
	}
	t, err := l.Present(ctx, l.Principal, id)
	switch {
	case errors.Is(err, tasks.ErrNotFound):
		return nil
	case err != nil:
		return err
	case !dialect.NoteOf(t).Elsewhere:
		return nil
	}
	if l.task = t; l.asked.ResumeToken != "" {
		if err := l.Keep(ctx, l.Exchange, id, l.asked.Frame); err != nil {
			return err
		}
	}
	l.program = t.Program
	return l.Readable(ctx, l.Exchange, t)
}

// routes are those of an open question.
func (l *look) routes(q *steps.Step) steps.Routes {
	return l.Routes(l.task.Program.Routing(q.ID), l.Caller)
}

// answer gives the call the answers, as far as they may be given here and fit.
func (l *look) answer(ctx context.Context) error {
	var list []steps.Answer
	for i := range l.task.Questions {
		q := &l.task.Questions[i]
		raw, ok := l.asked.Answers[q.ID]
		if !ok {
			continue
		}
		answer, why := plain(raw), ""
		switch {
		case l.routes(q)&steps.RouteApp == 0:
			why = "This cannot be answered here."
		case answer == nil:
			why = "The answer is of no known form."
		default:
			why = elsewhere.Misfit(*q, answer)
		}
		if why != "" {
			l.refused[q.ID] = why
			continue
		}
		list = append(list, steps.Answer{StepID: q.ID, Result: answer, By: elsewhere.ByApp})
	}
	l.late = len(list)+len(l.refused) < len(l.asked.Answers)
	if len(list) == 0 {
		return nil
	}
	now, err := l.Tasks.AnswerFound(ctx, l.Principal, l.task, list)
	unfit, refused := errors.AsType[*engine.AnswerError](err)
	switch {
	case refused:
		l.refused[unfit.StepID] = unfit.Reason
	case err != nil:
		return err
	case now != nil:
		l.task, l.late = now, true
	default:
		l.given = list
	}
	return nil
}

// plain is an answer of a form's as clients give theirs; nil if it is none.
func plain(answer jsontext.Value) json.RawMessage {
	action, ok := jsonview.String(jsonview.Get(answer, "action"))
	if !ok || action != "accept" && action != "decline" && action != "cancel" {
		return nil
	}
	b := wire.AppendString([]byte(`{"action":`), action)
	if v := jsontext.Value(jsonview.Get(answer, "content")); action == "accept" && v.Kind() == '{' {
		b = append(append(b, `,"content":`...), v...)
	}
	return append(b, '}')
}

// settle waits a little until the call asks something that was not answered yet, or has ended.
func (l *look) settle(ctx context.Context) error {
	if len(l.refused) > 0 || l.rests() {
		return nil
	}
	defer l.Pause(true)()
	within, stop := context.WithTimeout(ctx, settleTime)
	defer stop()
	defer context.AfterFunc(l.Closing, stop)()
	for news, err := range l.Tasks.Follow(within, l.Principal, l.task.ID, tasks.NoEvents, nil) {
		if err != nil && (within.Err() == nil || ctx.Err() != nil) {
			return err
		}
		if err == nil {
			l.task = news.Task
		}
		if l.rests() {
			break
		}
	}
	return context.Cause(ctx)
}

// rests reports whether the call has ended, or waits for the user.
func (l *look) rests() bool {
	return l.task.Status.Ended() || l.task.Status == tasks.InputRequired && len(l.open()) > 0
}

// open are the questions that were not answered by this look.
func (l *look) open() []steps.Step {
	return slices.DeleteFunc(slices.Clone(l.task.Questions), func(q steps.Step) bool {
		return slices.ContainsFunc(l.given, func(a steps.Answer) bool { return a.StepID == q.ID })
	})
}

// shown is what the form is to show.
func (l *look) shown(ctx context.Context) (*shown, error) {
	t, n := l.task, dialect.NoteOf(l.task)
	name := l.program.Name
	s := &shown{
		Status: dialect.TaskStatus(t.Status), Token: t.ID, Tool: name, Title: cmp.Or(l.program.Title, name), Refused: l.refused,
		Held:     l.Turns.Now().UnixMilli() < n.Held,
		Sentence: fmt.Sprintf("The form is answered. Call the tool %q again with the same arguments and in addition resumeToken: %s", name, t.ID),
	}
	switch {
	case l.late:
		s.Note = "That was answered before, so this answer was not taken."
	case t.Status == tasks.Completed && t.Bad, t.Status == tasks.Failed:
		s.Note = "The tool has ended with an error."
	case t.Status == tasks.Completed:
		s.Note = "Done."
	case t.Status == tasks.Cancelled && t.Final:
		s.Note = "The call was cancelled, but some of what it had done is final. The rest is undone, as far as it could be."
	case t.Status == tasks.Cancelled:
		s.Note = "The call was cancelled, and what it had done is undone."
	case t.Final:
		s.Note = relay.TooLate
	}
	if t.Status != tasks.InputRequired {
		return s, nil
	}
	var open []steps.Step
	if t.Program != nil { // else a newer server says what is asked
		open = l.open()
	}
	if len(open) == 0 {
		s.Status = dialect.TaskStatus(tasks.Working)
	}
	for i := range open {
		q, err := l.question(ctx, &open[i])
		if err != nil {
			return nil, err
		}
		s.Questions = append(s.Questions, q)
	}
	return s, nil
}

// question is what the form is to show of an open question.
func (l *look) question(ctx context.Context, s *steps.Step) (q question, err error) {
	q = question{ID: s.ID, Mode: "form"}
	q.Message, _ = jsonview.String(jsonview.Get(s.Params, "message"))
	routes := l.routes(s)
	switch {
	case routes&steps.RouteApp != 0 && jsonview.Is(jsonview.Get(s.Params, "mode"), "url"):
		q.Mode = "url"
		q.URL, _ = jsonview.String(jsonview.Get(s.Params, "url"))
	case routes&steps.RouteApp != 0:
		q.Schema = json.RawMessage(jsonview.Get(s.Params, "requestedSchema"))
	case routes&steps.RoutePage != 0:
		q.Mode = "page"
		q.URL, err = l.Questions.Pages.Link(ctx, l.Principal, l.task.ID, l.Turns.Now().Add(l.Turns.Codec.Options().TTL))
	default:
		q.Mode = "chat"
	}
	return q, err
}
