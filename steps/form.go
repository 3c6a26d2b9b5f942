package steps

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/jsonschema-go/jsonschema"

	"github.com/mcpsaga/mcpsaga/internal/checkerr"
	"github.com/mcpsaga/mcpsaga/internal/jsonview"
	"github.com/mcpsaga/mcpsaga/internal/schema"
)

// Form is a question for the user whose answer is a T: form mode elicitation
// (MCP page "client/elicitation"). T is a flat struct, whose exported fields become the
// fields of the form; the package documentation lists their types and tags.
//
// Do not copy or change a Form after its first use. Many goroutines may use it at once.
type Form[T any] struct {
	// ID correlates the answer with the question. It is unique within a saga, and has
	// 1 to 64 characters of A-Z a-z 0-9 _ - . : / .
	ID string
	// Message says to the user what is asked and why. It is required.
	Message string
	// Routes are the ways by which it may be asked; zero is any. They do not change by With.
	Routes Routes
	// Consent: the answer authorises something, so a person must give it. It is never relayed by a
	// model, and a form in the window of the host takes it only from clients that the server's
	// operator lists.
	Consent bool

	// By has others answer: it names who may, a person or a role, in the words of the server's
	// operator. The client is never asked, whatever it can do; who may answer does so on a page of the server. The
	// caller may not, even if named. By is required if Within is set, unless With supplies it.
	By By
	// Within is for how long others may answer, from when the saga asks. It is required with By. After
	// that, Answer fails with [ErrTimeout]. A saga whose own time ends before, by its MaxAge or a TTL of its Tasks, asks
	// no longer than it lasts, and those who answer read that.
	Within time.Duration
	// AllowCaller lets the caller answer as well, if By names the caller.
	AllowCaller bool

	nth, varied bool
	once        sync.Once
	made        *declaredForm // set from the beginning unless this is a declaration
}

// declaredForm is what a declaration comes to, or what With makes of it.
type declaredForm struct {
	spec   *FormSpec
	params json.RawMessage
	err    error
	// strict: the answer's type refuses some of what the form takes.
	strict bool
}

// declaredAs is what a form comes to, unless it has failed. The error is for withID.
func declaredAs(spec *FormSpec, strict bool, failed error) *declaredForm {
	if err := cmp.Or(failed, spec.verify()); err != nil {
		return &declaredForm{err: err}
	}
	return &declaredForm{spec: spec, params: spec.AppendParams(nil), strict: strict}
}

func (f *Form[T]) declared() *declaredForm {
	f.once.Do(func() {
		if f.made == nil {
			spec, t := &FormSpec{Message: f.Message}, reflect.TypeFor[T]()
			if f.Within != 0 || f.By != nil || f.AllowCaller {
				spec.others = &others{int64(f.Within), f.By, f.AllowCaller}
			}
			f.made = declaredAs(spec, schema.Refuses(t), cmp.Or(checkID(f.ID, false), spec.addFields(t)))
		}
	})
	return f.made
}

// addFields makes the fields of a form whose answer is of type t.
func (s *FormSpec) addFields(t reflect.Type) error {
	of, err := schema.ForForm(t)
	if err != nil {
		return err
	}
	for _, name := range of.PropertyOrder {
		f := fieldOf(name, of.Properties[name])
		f.Required = slices.Contains(of.Required, name)
		if v := of.Properties[name].Default; v != nil {
			if reason := f.setDefault(jsontext.Value(v)); reason != "" {
				return &QuestionError{Where: t.String() + ", field " + strconv.Quote(name), Reason: reason}
			}
		}
		s.Fields = append(s.Fields, f)
	}
	return nil
}

// StepID implements [Question].
func (f *Form[T]) StepID() string { return f.ID }

// Verify implements [Question].
func (f *Form[T]) Verify() error {
	if f.nth {
		if err := checkID(f.ID, true); err != nil {
			return err
		}
	}
	if err := checkRoutes(f.ID, f.Routes, f.Consent); err != nil {
		return err
	}
	return withID(f.ID, f.declared().err)
}

// Step implements [Request]. The Params of all steps of one form share memory: do not
// change them.
func (f *Form[T]) Step() (Step, error) {
	if err := f.Verify(); err != nil {
		return Step{}, err
	}
	made := f.declared()
	s := Step{ID: f.ID, Kind: Elicitation, Params: made.params, Needs: Features{Forms: true}, Varied: f.varied, Routes: f.Routes, Consent: f.Consent}
	if made.spec.others != nil {
		s.Kind, s.Needs, s.Routes = Outside, Features{}, 0
	}
	if err := made.spec.lacks(); err != nil {
		if s.ID = ""; s.Kind == Elicitation {
			s.Params, s.Varied = nil, false
		}
		return s, withID(f.ID, err) // for who asks With
	}
	return s, nil
}

// With returns the question asked differently this time: with another message,
// choices that are known only now, a draft to start from. A field that does not
// exist, or that cannot have what is given, makes Step fail.
func (f *Form[T]) With(options ...FormOption) *Form[T] {
	return f.instance(f.ID, f.nth, true, f.declared().with(options))
}

// Nth returns the n-th instance of the form, for a question asked in a loop: the
// same form with the id "ID#n". Ask and read through the same instance.
func (f *Form[T]) Nth(n int) *Form[T] {
	return f.instance(nthID(f.ID, n), true, f.varied, f.declared())
}

func (f *Form[T]) instance(id string, nth, varied bool, made *declaredForm) *Form[T] {
	return &Form[T]{
		ID: id, Message: f.Message, Routes: f.Routes, Consent: f.Consent, By: f.By, Within: f.Within, AllowCaller: f.AllowCaller,
		nth: nth, varied: varied, made: made,
	}
}

func (d *declaredForm) with(options []FormOption) *declaredForm {
	if d.err != nil {
		return d
	}
	spec := &FormSpec{Message: d.spec.Message, Fields: slices.Clone(d.spec.Fields), others: d.spec.others}
	var err error
	for _, o := range options {
		if o != nil && err == nil {
			err = o.applyForm(spec)
		}
	}
	return declaredAs(spec, d.strict, err)
}

// Check implements [Question]. It validates the user's content against the form that
// was asked: the declared one, or the one in step.Params if step is Varied. It ignores
// the content of a user who did not accept, and members that are not in the form.
func (f *Form[T]) Check(step Step, result json.RawMessage) error {
	spec := f.declared().spec
	if step.Varied {
		asked, err := parseForm(step.Params)
		if err != nil {
			return withID(step.ID, err)
		}
		spec = asked
	} else if err := f.declared().err; err != nil {
		return withID(step.ID, err)
	}
	e, err := parsed(step.ID, result, parseElicited)
	if err != nil || e.action != accepted {
		return err
	}
	err = spec.validateJSON(step.ID, e.content)
	if err != nil || e.content == nil || !f.declared().strict { // as Answer does, no content is an empty form
		return err
	}
	if err := schema.Decode(e.content, new(T)); err != nil {
		return &checkerr.InvalidError{StepID: step.ID, Reason: spec.refusal(err)}
	}
	return nil
}

// refusal says why the answer's type refuses what fits the form.
func (s *FormSpec) refusal(err error) string {
	if why, ok := errors.AsType[*jsonv2.SemanticError](err); ok && why.Err != nil {
		if f := s.find(why.JSONPointer.LastToken()); f != nil {
			return f.Label() + ": " + why.Err.Error()
		}
	}
	return "it cannot be read"
}

// Answer returns what the user entered. A field that the user left out is zero, even
// if the form shows a default for it. (Make the field required to have the default
// sent.) Check has validated what a turn hands out. The error is a *[StepError].
func (f *Form[T]) Answer(a Answers) (T, error) {
	parse := parseElicited
	if f.Within > 0 {
		parse = parseOthers
	}
	return contentOf(a, f.ID, parse, func(content jsontext.Value) (answer T, err error) {
		if content != nil {
			err = schema.Decode(content, &answer)
		}
		return answer, err
	})
}

// What came of a question to people (MCP page "client/elicitation"), or of an event.
const (
	accepted  = "accept"  // answered, or agreed to open the link
	declined  = "decline" // said no
	cancelled = "cancel"  // dismissed the question without choosing
	timedOut  = "timeout" // has not happened in time, or was not answered by others
)

// outcome is a parsed ElicitResult, or what came of an event.
type outcome struct {
	action string
	// content is nil if there was none. It counts if it is accepted.
	content jsontext.Value
	// reason says why an event was rejected, or is empty. Answers of people have none.
	reason string
}

// parseOutcome reads an outcome, of valid JSON, that has one of some actions. If it is malformed it returns why.
func parseOutcome(result json.RawMessage, actions ...string) (o outcome, reason string) {
	for name, v := range jsonview.Members(result) {
		switch string(name) {
		case "action":
			o.action, _ = jsonview.String(v)
		case "content":
			o.content = v
		case "reason":
			o.reason, _ = jsonview.String(v)
		}
	}
	if !slices.Contains(actions, o.action) {
		last := len(actions) - 1
		return o, fmt.Sprintf(`"action" must be "%s" or %q`, strings.Join(actions[:last], `", "`), actions[last])
	}
	return o, ""
}

// parseElicited reads an ElicitResult. Its content is an object of strings, numbers, booleans and lists of strings.
func parseElicited(result json.RawMessage) (outcome, string) {
	o, reason := parseOutcome(result, accepted, declined, cancelled)
	switch {
	case reason != "":
		return o, reason
	case o.action != accepted, o.content == nil, o.content.Kind() == 'n':
		return outcome{action: o.action}, ""
	case o.content.Kind() != '{':
		return o, `"content" must be an object`
	}
	for name, v := range jsonview.Members(o.content) {
		kind := jsontext.Value(v).Kind()
		if _, ok := jsonview.Strings(v); kind == '{' || kind == 'n' || kind == '[' && !ok {
			return o, "content member " + strconv.Quote(string(name)) + " must be a string, a number, a boolean or a list of strings"
		}
	}
	return o, ""
}

// parsed reads a result from outside with parse, which returns why it is malformed, or "".
func parsed[T any](id string, result json.RawMessage, parse func(json.RawMessage) (T, string)) (v T, err error) {
	if reason := checkObject(result); reason != "" {
		return v, &checkerr.MalformedError{StepID: id, Reason: reason}
	}
	return checked(id, result, parse)
}

// checked is parsed for what is known to be valid JSON.
func checked[T any](id string, result json.RawMessage, parse func(json.RawMessage) (T, string)) (T, error) {
	if jsontext.Value(result).Kind() != '{' {
		return *new(T), &checkerr.MalformedError{StepID: id, Reason: notObject}
	}
	v, reason := parse(result)
	if reason != "" {
		return v, &checkerr.MalformedError{StepID: id, Reason: reason}
	}
	return v, nil
}

// answered reads what came for step id, and has passed Check. Its errors are of type *[StepError].
func answered[T any](a Answers, id string, parse func(json.RawMessage) (T, string)) (v T, err error) {
	var answer Answer
	asked := false
	if a != nil {
		answer, asked = a.StepAnswer(id)
	}
	switch {
	case !asked:
		err = ErrNotAsked
	case answer.Error != nil:
		err = answer.Error
	default:
		v, err = checked(id, answer.Result, parse)
	}
	if err != nil {
		err = &StepError{StepID: id, Err: err}
	}
	return v, err
}

// acceptedBy returns the content that was accepted for step id.
func acceptedBy(a Answers, id string, parse func(json.RawMessage) (outcome, string)) (jsontext.Value, error) {
	o, err := answered(a, id, parse)
	switch {
	case err != nil:
		return nil, err
	case o.action == timedOut:
		err = ErrTimeout
	case o.action == declined && o.reason != "":
		err = fmt.Errorf("%w: %s", ErrDeclined, o.reason)
	case o.action == declined:
		err = ErrDeclined
	case o.action == cancelled:
		err = ErrCancelled
	default:
		return o.content, nil
	}
	return nil, &StepError{StepID: id, Err: err}
}

// contentOf decodes the content that was accepted for step id.
func contentOf[T any](a Answers, id string, parse func(json.RawMessage) (outcome, string), decode func(jsontext.Value) (T, error)) (T, error) {
	var none T
	content, err := acceptedBy(a, id, parse)
	if err != nil {
		return none, err
	}
	answer, err := decode(content)
	if err != nil {
		return none, &StepError{StepID: id, Err: err}
	}
	return answer, nil
}

// fieldOf returns the field of a form that a member of [schema.ForForm] describes.
func fieldOf(name string, s *jsonschema.Schema) Field {
	f := Field{
		Name: name, Title: s.Title, Description: s.Description, Format: s.Format,
		MinLength: s.MinLength, MaxLength: s.MaxLength, MinItems: s.MinItems, MaxItems: s.MaxItems, Minimum: s.Minimum, Maximum: s.Maximum,
		LegacyTitles: s.Extra["enumNames"] != nil, notSecret: s.Extra["notsecret"] != nil,
	}
	for _, typ := range append(s.Types, s.Type) {
		if typ != "null" && typ != "" {
			f.Type = typ
		}
	}
	if f.Type == "array" {
		f.Type, f.Multiple = typeString, true
		s.Enum, s.OneOf = s.Items.Enum, s.Items.OneOf
	}
	for i, value := range s.Enum {
		if value, ok := value.(string); ok {
			c := Choice{Value: value}
			if s.OneOf != nil {
				c.Title = s.OneOf[i].Title
			}
			f.Choices = append(f.Choices, c)
		}
	}
	return f
}
