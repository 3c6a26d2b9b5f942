package steps

import (
	"bytes"
	"encoding/json"
	"reflect"
	"slices"
	"strconv"
	"sync"

	json2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/mcpsaga/mcpsaga/internal/checkerr"
	"github.com/mcpsaga/mcpsaga/internal/jsonview"
)

// Form is a question for the user whose answer is a T: form mode elicitation
// (MCP page "client/elicitation"). Declare it once, as a package variable, and
// use it both to ask and to read, so that the id and the type always match:
//
//	var target = &steps.Form[Target]{ID: "target", Message: "Where to?"}
//
// T is a flat struct. The form's fields are T's exported fields, named and made
// optional by their json tags; what else MCP allows is said in struct tags. The
// package documentation lists them.
//
// Do not copy or change a Form after its first use. It may be used by many
// goroutines at once.
type Form[T any] struct {
	// ID correlates the answer with the question. It is unique within a saga, and has
	// 1 to 64 characters of A-Z a-z 0-9 _ - . : / .
	ID string
	// Message says to the user what is asked and why. It is required.
	Message string

	base   *Form[T] // the form as declared, if this is an instance or varies it
	varied bool
	once   sync.Once
	made   declaredForm // of an instance that is not varied: its base's
}

// declaredForm is what a declaration comes to.
type declaredForm struct {
	spec   *FormSpec
	params json.RawMessage
	err    error
}

func (f *Form[T]) declared() *declaredForm {
	switch {
	case f.varied:
		return &f.made
	case f.base != nil:
		return f.base.declared()
	}
	f.once.Do(func() { f.made = declareForm(f.ID, f.Message, reflect.TypeFor[T]()) })
	return &f.made
}

func declareForm(id, message string, t reflect.Type) declaredForm {
	if reason := checkDeclaredID(id); reason != "" {
		return declaredForm{err: &QuestionError{StepID: id, Reason: reason}}
	}
	if message == "" {
		return declaredForm{err: &QuestionError{StepID: id, Reason: "has no Message"}}
	}
	fields, err := inferFields(t)
	if err != nil {
		return declaredForm{err: withID(id, err)}
	}
	spec := &FormSpec{Message: message, Fields: fields}
	return declaredForm{spec: spec, params: spec.AppendParams(nil)}
}

// StepID implements [Question].
func (f *Form[T]) StepID() string { return f.ID }

// Verify implements [Question].
func (f *Form[T]) Verify() error {
	if f.base != nil {
		if reason := checkID(f.ID); reason != "" {
			return &QuestionError{StepID: f.ID, Reason: reason}
		}
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
	if err := made.spec.open(); err != nil {
		return Step{}, withID(f.ID, err)
	}
	return Step{ID: f.ID, Kind: Elicitation, Params: made.params, Needs: Features{Forms: true}, Varied: f.varied}, nil
}

// With returns the question asked differently this time: with another message,
// choices that are known only now, a draft to start from. A field that does not
// exist, or that cannot have what is given, makes Step fail.
func (f *Form[T]) With(options ...FormOption) *Form[T] {
	return &Form[T]{ID: f.ID, Message: f.Message, base: f.root(), varied: true, made: f.declared().with(options)}
}

// Nth returns the n-th instance of the form, for a question asked in a loop: the
// same form with the id "ID#n". Ask and read through the same instance.
func (f *Form[T]) Nth(n int) *Form[T] {
	nth := &Form[T]{ID: nthID(f.ID, n), Message: f.Message, base: f.root(), varied: f.varied}
	if f.varied {
		nth.made = f.made
	}
	return nth
}

func (f *Form[T]) root() *Form[T] {
	if f.base != nil {
		return f.base
	}
	return f
}

// with returns what the options make of a form.
func (d *declaredForm) with(options []FormOption) declaredForm {
	if d.err != nil {
		return *d
	}
	spec := &FormSpec{Message: d.spec.Message, Fields: slices.Clone(d.spec.Fields)}
	for _, o := range options {
		if o == nil {
			continue
		}
		if err := o.applyForm(spec); err != nil {
			return declaredForm{err: err}
		}
	}
	if err := spec.verify(); err != nil {
		return declaredForm{err: err}
	}
	return declaredForm{spec: spec, params: spec.AppendParams(nil)}
}

// Check implements [Question]. The user's content is validated against the form
// that was asked: the declared one, or the one in step.Params if step is Varied.
// Content of a user who did not accept is ignored, and so are members that are
// not in the form. An error of another type than Question's says that step was
// not made from this form.
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
	e, reason := parseElicited(result)
	if reason != "" {
		return &checkerr.MalformedError{StepID: step.ID, Reason: reason}
	}
	if e.action != accepted {
		return nil
	}
	return spec.validateJSON(step.ID, e.content)
}

// Answer returns what the user entered. A field that the user left out is zero,
// even if the form shows a default for it: the default was there to be accepted
// and was not. (Make the field required to have the default sent.)
//
// Content has been validated by Check when a turn hands it out; Answer only
// decodes it. The error is a *[StepError].
func (f *Form[T]) Answer(a Answers) (T, error) {
	var answer T
	content, err := acceptedBy(a, f.ID)
	if err != nil {
		return answer, err
	}
	if content == nil {
		return answer, nil
	}
	if made := f.declared(); made.err == nil {
		content = plainIntegers(made.spec, content)
	}
	if err := json2.Unmarshal(content, &answer); err != nil {
		var zero T
		return zero, &StepError{StepID: f.ID, Err: err}
	}
	return answer, nil
}

// plainIntegers returns content with the form's integers written as such: to JSON
// Schema 3.0 is an integer, to Go's decoders it is not.
func plainIntegers(spec *FormSpec, content jsontext.Value) jsontext.Value {
	rewrite := false
	for name, v := range jsonview.Members(content) {
		_, odd := oddInteger(spec, name, v)
		rewrite = rewrite || odd
	}
	if !rewrite {
		return content
	}
	out, sep := []byte(nil), byte('{')
	for name, v := range jsonview.Members(content) {
		out = append(appendString(append(out, sep), name), ':')
		if n, odd := oddInteger(spec, name, v); odd {
			out = strconv.AppendInt(out, n, 10)
		} else {
			out = append(out, v...)
		}
		sep = ','
	}
	return append(out, '}')
}

// oddInteger reports whether v is a value of an integer field that is written with
// a fraction or an exponent, and the integer it is.
func oddInteger(spec *FormSpec, name []byte, v jsontext.Value) (int64, bool) {
	if v.Kind() != '0' || !bytes.ContainsAny(v, ".eE") {
		return 0, false
	}
	if f := spec.find(string(name)); f == nil || f.Type != typeInteger {
		return 0, false
	}
	return integer(v)
}
