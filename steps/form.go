package steps

import (
	"cmp"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"sync"
	"time"

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
	// that, Answer fails with [ErrTimeout].
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
}

func declaredAs(spec *FormSpec) *declaredForm {
	if err := spec.verify(); err != nil {
		return &declaredForm{err: err}
	}
	return &declaredForm{spec: spec, params: spec.AppendParams(nil)}
}

func (f *Form[T]) declared() *declaredForm {
	f.once.Do(func() {
		if f.made == nil {
			f.made = declareForm(f.ID, &FormSpec{Message: f.Message, others: f.others()}, reflect.TypeFor[T]())
		}
	})
	return f.made
}

func declareForm(id string, spec *FormSpec, t reflect.Type) *declaredForm {
	fields, err := inferFields(t)
	if err = cmp.Or(checkID(id, false), err); err != nil {
		return &declaredForm{err: err}
	}
	spec.Fields = fields
	return declaredAs(spec)
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
	return &Form[T]{
		ID: f.ID, Message: f.Message, Routes: f.Routes, Consent: f.Consent, By: f.By, Within: f.Within, AllowCaller: f.AllowCaller,
		nth: f.nth, varied: true, made: f.declared().with(options),
	}
}

// Nth returns the n-th instance of the form, for a question asked in a loop: the
// same form with the id "ID#n". Ask and read through the same instance.
func (f *Form[T]) Nth(n int) *Form[T] {
	return &Form[T]{
		ID: nthID(f.ID, n), Message: f.Message, Routes: f.Routes, Consent: f.Consent, By: f.By, Within: f.Within, AllowCaller: f.AllowCaller,
		nth: true, varied: f.varied, made: f.declared(),
	}
}

func (d *declaredForm) with(options []FormOption) *declaredForm {
	if d.err != nil {
		return d
	}
	spec := &FormSpec{Message: d.spec.Message, Fields: slices.Clone(d.spec.Fields), others: d.spec.others}
	for _, o := range options {
		if o == nil {
			continue
		}
		if err := o.applyForm(spec); err != nil {
			return &declaredForm{err: err}
		}
	}
	return declaredAs(spec)
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
	return spec.validateJSON(step.ID, e.content)
}

// Answer returns what the user entered. A field that the user left out is zero, even
// if the form shows a default for it. (Make the field required to have the default
// sent.) Check has validated what a turn hands out. The error is a *[StepError].
func (f *Form[T]) Answer(a Answers) (T, error) {
	var answer T
	parse := parseElicited
	if f.Within > 0 {
		parse = parseOthers
	}
	content, err := acceptedBy(a, f.ID, parse)
	if err != nil {
		return answer, err
	}
	if content == nil {
		return answer, nil
	}
	if err := schema.Decode(content, &answer); err != nil {
		var zero T
		return zero, &StepError{StepID: f.ID, Err: err}
	}
	return answer, nil
}

// What a user did with a question (MCP page "client/elicitation").
const (
	accepted  = "accept"  // answered, or agreed to open the link
	declined  = "decline" // said no
	cancelled = "cancel"  // dismissed the question without choosing
)

// elicited is a parsed ElicitResult.
type elicited struct {
	action string
	// content is an object of strings, numbers, booleans and lists of strings. It is
	// nil if there was none or the user did not accept.
	content jsontext.Value
}

// parseElicited reads an ElicitResult. If it is malformed it returns why.
func parseElicited(result json.RawMessage) (e elicited, reason string) {
	if reason = checkObject(result); reason != "" {
		return e, reason
	}
	var content jsontext.Value
	ok := false
	for name, v := range jsonview.Members(result) {
		switch string(name) {
		case "action":
			e.action, ok = jsonview.String(v)
		case "content":
			content = v
		}
	}
	switch {
	case !ok:
		return e, `"action" must be a string: "accept", "decline" or "cancel"`
	case e.action != accepted && e.action != declined && e.action != cancelled:
		return e, `"action" must be "accept", "decline" or "cancel"`
	case e.action != accepted || absent(content):
		return e, ""
	case content.Kind() != '{':
		return e, `"content" must be an object`
	}
	for name, v := range jsonview.Members(content) {
		kind := jsontext.Value(v).Kind()
		if _, ok := jsonview.Strings(v); kind == '{' || kind == 'n' || kind == '[' && !ok {
			return e, fmt.Sprintf("content member %q must be a string, a number, a boolean or a list of strings", name)
		}
	}
	e.content = content
	return e, ""
}

// parsed reads a result with parse, which returns why it is malformed, or "".
func parsed[T any](id string, result json.RawMessage, parse func(json.RawMessage) (T, string)) (T, error) {
	v, reason := parse(result)
	if reason != "" {
		return v, &checkerr.MalformedError{StepID: id, Reason: reason}
	}
	return v, nil
}

// answered reads what came for step id. Its errors are of type *[StepError].
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
		v, err = parsed(id, answer.Result, parse)
	}
	if err != nil {
		err = &StepError{StepID: id, Err: err}
	}
	return v, err
}

// acceptedBy returns the content that the user accepted for step id.
func acceptedBy(a Answers, id string, parse func(json.RawMessage) (elicited, string)) (jsontext.Value, error) {
	e, err := answered(a, id, parse)
	switch {
	case err != nil:
		return nil, err
	case e.action == timedOut:
		err = ErrTimeout
	case e.action == declined:
		err = ErrDeclined
	case e.action == cancelled:
		err = ErrCancelled
	default:
		return e.content, nil
	}
	return nil, &StepError{StepID: id, Err: err}
}

// inferFields returns the fields of a form whose answer is of type t. Its errors are for
// withID.
func inferFields(t reflect.Type) ([]Field, error) {
	s, err := schema.ForForm(t)
	if err != nil {
		return nil, err
	}
	var fields []Field
	for _, name := range s.PropertyOrder {
		f := fieldOf(name, s.Properties[name])
		f.Required = slices.Contains(s.Required, name)
		if v := s.Properties[name].Default; v != nil {
			if reason := f.setDefault(jsontext.Value(v)); reason != "" {
				return nil, &QuestionError{Where: t.String() + ", field " + strconv.Quote(name), Reason: reason}
			}
		}
		fields = append(fields, f)
	}
	return fields, nil
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
