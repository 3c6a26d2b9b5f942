package steps_test

import (
	"encoding/json"
	"errors"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/internal/checkerr"
	"github.com/mcpsaga/mcpsaga/steps"
)

// Whatever parses can be written, and reads back as the same form.
func FuzzParseForm(f *testing.F) {
	for _, name := range []string{"form-everything", "form-empty", "form-varied", "form-again"} {
		raw, err := os.ReadFile("testdata/" + name + ".json")
		require.NoError(f, err)
		f.Add(raw)
	}
	f.Fuzz(func(t *testing.T, params []byte) {
		spec, err := steps.Step{Params: params}.Form()
		if err != nil {
			var qe *steps.QuestionError
			require.ErrorAs(t, err, &qe)
			return
		}
		raw := spec.AppendParams(nil)
		again, err := steps.Step{Params: raw}.Form()
		require.NoError(t, err)
		require.Equal(t, string(raw), string(again.AppendParams(nil)))
		_ = spec.Validate(nil)
	})
}

// Check answers with one of the errors it promises, and what it lets through can
// be read.
func FuzzCheck(f *testing.F) {
	f.Add([]byte(`{"action":"accept","content":{"text":"abc","int":3.0,"many":["a"],"when":"2026-07-28T01:02:03Z"}}`))
	f.Add([]byte(`{"action":"decline"}`))
	f.Add([]byte(`{"action":"accept","content":{"int":1e0,"num":1e999}}`))
	step, err := rules.Step()
	require.NoError(f, err)
	varied := step
	varied.Varied = true
	f.Fuzz(func(t *testing.T, doc []byte) {
		err := rules.Check(step, doc)
		require.Equal(t, err, rules.Check(varied, doc))
		var me *checkerr.MalformedError
		var ie *checkerr.InvalidError
		require.True(t, err == nil || errors.As(err, &me) || errors.As(err, &ie), err)
		_, readErr := rules.Answer(result("r", string(doc)))
		if err == nil && !errors.Is(readErr, steps.ErrDeclined) && !errors.Is(readErr, steps.ErrCancelled) {
			require.NoError(t, readErr)
		}
		if ie != nil {
			_, err := step.Again(ie.Reason)
			require.NoError(t, err)
		}
	})
}

func FuzzSampleResult(f *testing.F) {
	f.Add([]byte(`{"role":"assistant","content":{"type":"text","text":"a"},"model":"m"}`))
	f.Add([]byte(`{"role":"user","content":[{"type":"x"}],"model":"","stopReason":"endTurn"}`))
	f.Fuzz(func(t *testing.T, doc []byte) {
		r, err := advice.Answer(result("step-sampling-B", string(doc)))
		checked := advice.Check(steps.Step{ID: "s"}, doc)
		require.Equal(t, err == nil, checked == nil)
		if err != nil {
			return
		}
		raw, err := r.MarshalJSON()
		require.NoError(t, err)
		require.NoError(t, advice.Check(steps.Step{ID: "s"}, raw))
	})
}

func FuzzParseSampleRequest(f *testing.F) {
	raw, err := os.ReadFile("testdata/sample-full.json")
	require.NoError(f, err)
	f.Add(raw)
	f.Fuzz(func(t *testing.T, params []byte) {
		r, err := steps.Step{Params: params}.Sample()
		if err != nil || r.Verify() != nil {
			return
		}
		raw, err := r.AppendParams(nil)
		require.NoError(t, err)
		_, err = steps.Step{Params: raw}.Sample()
		require.NoError(t, err)
		_ = r.Needs()
	})
}

func FuzzParseLinkAndRoots(f *testing.F) {
	f.Add([]byte(`{"mode":"url","message":"m","url":"https://a/"}`))
	f.Add([]byte(`{"roots":[{"uri":"file:///a","name":"A"}]}`))
	roots := &steps.RootsList{ID: "r"}
	f.Fuzz(func(t *testing.T, doc []byte) {
		if link, err := (steps.Step{Params: doc}).Link(); err == nil && link.Message != "" {
			link.ID = "l"
			step, err := link.Step()
			require.NoError(t, err)
			again, err := step.Link()
			require.NoError(t, err)
			require.Equal(t, link, again)
		}
		_ = roots.Check(steps.Step{}, doc)
	})
}

var benchForm = &steps.Form[Target]{ID: "b", Message: "Please provide the deployment target:"}

func BenchmarkStep(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		_, _ = benchForm.Step()
	}
}

func BenchmarkStepVaried(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		_, _ = benchForm.With(steps.Choices("target", steps.Choice{Value: "a"}, steps.Choice{Value: "b"})).Step()
	}
}

func BenchmarkCheck(b *testing.B) {
	step := mustStep(b, benchForm)
	doc := json.RawMessage(`{"action":"accept","content":{"target":"production"}}`)
	b.ReportAllocs()
	for b.Loop() {
		_ = benchForm.Check(step, doc)
	}
}

func BenchmarkCheckVaried(b *testing.B) {
	step := mustStep(b, benchForm)
	step.Varied = true
	doc := json.RawMessage(`{"action":"accept","content":{"target":"production"}}`)
	b.ReportAllocs()
	for b.Loop() {
		_ = benchForm.Check(step, doc)
	}
}

func BenchmarkAnswer(b *testing.B) {
	a := result("b", `{"action":"accept","content":{"target":"production"}}`)
	b.ReportAllocs()
	for b.Loop() {
		_, _ = benchForm.Answer(a)
	}
}

func BenchmarkSampleStep(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		_, _ = advice.With(steps.Promptf("Is deploying to '%s' safe right now?", "production")).Step()
	}
}

func BenchmarkSampleAnswer(b *testing.B) {
	a := result("step-sampling-B", `{"role":"assistant","content":{"type":"text","text":"Yes, all systems are green."},"model":"client-side-llm-v2"}`)
	b.ReportAllocs()
	for b.Loop() {
		_, _ = advice.Answer(a)
	}
}
