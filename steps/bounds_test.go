package steps_test

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/internal/checkerr"
	"github.com/mcpsaga/mcpsaga/steps"
)

// Bounds has every limit that a form can have, each alone.
type Bounds struct {
	Short  string   `json:"short,omitempty" minLength:"3"`
	One    string   `json:"one,omitempty" minLength:"1"`
	Long   string   `json:"long,omitempty" maxLength:"3"`
	None   string   `json:"none,omitempty" maxLength:"0"`
	Low    int      `json:"low,omitempty" minimum:"-2"`
	High   int      `json:"high,omitempty" maximum:"2"`
	LowF   float64  `json:"lowF,omitempty" minimum:"-0.5"`
	HighF  float64  `json:"highF,omitempty" maximum:"0.5"`
	Byte   uint8    `json:"byte,omitempty"`
	Signed int8     `json:"signed,omitempty"`
	Wide   int64    `json:"wide,omitempty"`
	Many   []string `json:"many,omitempty" enum:"a|b|c|d" minItems:"2"`
	Few    []string `json:"few,omitempty" enum:"a|b|c|d" maxItems:"2"`
	Zero   []string `json:"zero,omitempty" enum:"a" maxItems:"0"`
	When   string   `json:"when,omitempty" format:"date-time"`
	Day    string   `json:"day,omitempty" format:"date"`
}

var bounds = &steps.Form[Bounds]{ID: "r", Message: "m"}

// At each bound a value fits, and the next one beyond does not.
func TestExactBounds(t *testing.T) {
	step := mustStep(t, bounds)
	spec, err := steps.Step{Params: step.Params}.Form()
	require.NoError(t, err)
	for _, c := range []struct{ name, at, beyond, rule string }{
		{"short", `"äöü"`, `"äö"`, "must be at least 3 characters long"},
		{"one", `"ä"`, `""`, "must not be empty"},
		{"long", `"äöü"`, `"äöüß"`, "must be at most 3 characters long"},
		{"none", `""`, `"a"`, "must be at most 0 characters long"},
		{"low", `-2`, `-3`, "must be at least -2"},
		{"high", `2`, `3`, "must be at most 2"},
		{"high", `2.0`, `2.0000000000000004`, "must be a whole number"},
		{"lowF", `-0.5`, `-0.5000000000000001`, "must be at least -0.5"},
		{"highF", `0.5`, `0.5000000000000001`, "must be at most 0.5"},
		{"highF", `-1.7976931348623157e308`, `1e999`, "must be a number"},
		{"byte", `0`, `-1`, "must be at least 0"},
		{"byte", `255`, `256`, "must be at most 255"},
		{"signed", `-128`, `-129`, "must be at least -128"},
		{"signed", `127`, `128`, "must be at most 127"},
		{"wide", `9223372036854775807`, `9223372036854775808`, "must be a whole number"},
		{"wide", `-9223372036854775808`, `-9223372036854775809`, "must be a whole number"},
		{"wide", `9007199254740994.0`, `9223372036854775808.0`, "must be a whole number"}, // nothing is rounded
		{"wide", `-9223372036854775808.0`, `-9223372036854777856.0`, "must be a whole number"},
		{"many", `["a","b"]`, `["a"]`, "needs at least 2 choices"},
		{"few", `["a","b"]`, `["a","b","c"]`, "takes at most 2 choices"},
		{"zero", `[]`, `["a"]`, "takes at most 0 choices"},
		{"day", `"2024-02-29"`, `"2024-02-30"`, "must be a date written as 2026-07-28"},
		{"when", `"2026-12-31T23:59:59+23:59"`, `"2026-12-31T23:59:59+24:00"`, "must be a date and time written as 2026-07-28T15:04:05Z"},
		{"when", `"2026-12-31T23:59:59Z"`, `"2026-12-31T3:59:59Z"`, "must be a date and time written as 2026-07-28T15:04:05Z"},
	} {
		result := func(v string) json.RawMessage {
			return json.RawMessage(fmt.Sprintf(`{"action":"accept","content":{%q:%s}}`, c.name, v))
		}
		assert.NoError(t, bounds.Check(step, result(c.at)), "%s: %s", c.name, c.at)
		var invalid *checkerr.InvalidError
		if assert.ErrorAs(t, bounds.Check(step, result(c.beyond)), &invalid, "%s: %s", c.name, c.beyond) {
			assert.Equal(t, c.name+": "+c.rule, invalid.Reason)
		}
		// A client that decodes the number first sees the same, as long as a float64 can.
		f, ok := spec.Field(c.name)
		require.True(t, ok)
		if c.name == "wide" || strings.Contains(c.beyond, "1e999") {
			continue
		}
		for v, rule := range map[string]string{c.at: "", c.beyond: c.rule} {
			var decoded any
			require.NoError(t, json.Unmarshal([]byte(v), &decoded))
			if err := f.Validate(decoded); rule == "" {
				assert.NoError(t, err, "%s: %s", c.name, v)
			} else {
				assert.EqualError(t, err, c.name+": "+rule, v)
			}
		}
	}
}

func TestNumbersOfFieldsMadeByHand(t *testing.T) {
	n := steps.Field{Name: "n", Type: "number"}
	assert.NoError(t, n.Validate(math.MaxFloat64))
	for _, x := range []float64{math.Inf(1), math.Inf(-1), math.NaN()} {
		assert.EqualError(t, n.Validate(x), "n: must be a number")
	}
	whole := steps.Field{Name: "n", Type: "integer"}
	assert.NoError(t, whole.Validate(float64(math.MinInt64)))
	assert.NoError(t, whole.Validate(math.Nextafter(math.MaxInt64, 0)))
	assert.EqualError(t, whole.Validate(float64(math.MaxInt64)), "n: must be a whole number", "2^63 is no int64")
	assert.EqualError(t, whole.Validate(math.Nextafter(math.MinInt64, math.Inf(-1))), "n: must be a whole number")
}

// Ten choices are listed, of eleven the first ten.
func TestListedChoices(t *testing.T) {
	for n, want := range map[int]string{10: `"9", "10"`, 11: `"9", "10", …`} {
		f := steps.Field{Name: "c"}
		for i := range n {
			f.Choices = append(f.Choices, steps.Choice{Value: fmt.Sprint(i + 1)})
		}
		err := f.Validate("0")
		require.Error(t, err)
		assert.True(t, strings.HasSuffix(err.Error(), want), err)
	}
}

// The fields of a form of any length are told apart.
func TestFormsOfManyFields(t *testing.T) {
	for _, n := range []int{31, 32, 33, 100} {
		var properties, required, content []string
		for i := range n {
			properties = append(properties, fmt.Sprintf(`"f%d":{"type":"string"}`, i))
			required = append(required, fmt.Sprintf(`"f%d"`, i))
			if i < n-1 {
				content = append(content, fmt.Sprintf(`"f%d":"x"`, i))
			}
		}
		step := steps.Step{ID: "r", Varied: true, Params: json.RawMessage(`{"message":"m","requestedSchema":{"type":"object","properties":{` +
			strings.Join(properties, ",") + `},"required":[` + strings.Join(required, ",") + `]}}`)}
		var invalid *checkerr.InvalidError
		require.ErrorAs(t, rules.Check(step, json.RawMessage(`{"action":"accept","content":{`+strings.Join(content, ",")+`}}`)), &invalid)
		assert.Equal(t, fmt.Sprintf("f%d: is required", n-1), invalid.Reason)
	}
}

func TestBoundsOfDeclarations(t *testing.T) {
	verify := func(change func(*steps.SampleRequest)) error {
		r := &steps.SampleRequest{MaxTokens: 1, Messages: []steps.SampleMessage{steps.UserText("a")}, ModelPreferences: &steps.ModelPreferences{}}
		change(r)
		return r.Verify()
	}
	for _, p := range []func(*steps.SampleRequest) **float64{
		func(r *steps.SampleRequest) **float64 { return &r.ModelPreferences.CostPriority },
		func(r *steps.SampleRequest) **float64 { return &r.ModelPreferences.SpeedPriority },
		func(r *steps.SampleRequest) **float64 { return &r.ModelPreferences.IntelligencePriority },
	} {
		for x, ok := range map[float64]bool{0: true, 1: true, math.Nextafter(0, -1): false, math.Nextafter(1, 2): false} {
			assert.Equal(t, ok, verify(func(r *steps.SampleRequest) { *p(r) = &x }) == nil, x)
		}
	}
	for n, ok := range map[int]bool{1: true, 0: false, -1: false} {
		assert.Equal(t, ok, verify(func(r *steps.SampleRequest) { r.MaxTokens = n }) == nil, n)
	}
	for _, x := range []float64{math.Inf(1), math.Inf(-1), math.NaN()} {
		assert.Error(t, verify(func(r *steps.SampleRequest) { r.Temperature = &x }), x)
	}
	assert.NoError(t, verify(func(r *steps.SampleRequest) { r.Temperature = new(math.MaxFloat64) }))
	for n, ok := range map[string]bool{"1": true, "1.0": true, "0": false, "-1": false, "1.5": false, "9223372036854775807": true, "9223372036854775808": false} {
		_, err := steps.Step{Params: json.RawMessage(`{"messages":[],"maxTokens":` + n + `}`)}.Sample()
		assert.Equal(t, ok, err == nil, n)
	}
	for n, ok := range map[string]bool{"0": true, "0.0": true, "-1": false, "0.5": false} {
		_, err := steps.Step{Params: json.RawMessage(`{"message":"m","requestedSchema":{"type":"object","properties":{"a":{"type":"string","minLength":` + n + `}}}}`)}.Form()
		assert.Equal(t, ok, err == nil, n)
	}
	// Limits that meet leave one value; those that cross leave none.
	for _, c := range []struct {
		err error
		ok  bool
	}{
		{(&steps.Form[struct {
			A string `minLength:"2" maxLength:"2"`
		}]{ID: "f", Message: "m"}).Verify(), true},
		{(&steps.Form[struct {
			A string `minLength:"3" maxLength:"2"`
		}]{ID: "f", Message: "m"}).Verify(), false},
		{(&steps.Form[struct {
			A float64 `minimum:"2" maximum:"2"`
		}]{ID: "f", Message: "m"}).Verify(), true},
		{(&steps.Form[struct {
			A []string `enum:"a|b|c" minItems:"3"`
		}]{ID: "f", Message: "m"}).Verify(), true},
		{(&steps.Form[struct {
			A []string `enum:"a|b" minItems:"3"`
		}]{ID: "f", Message: "m"}).Verify(), false},
		{(&steps.Form[struct {
			A []string `enum:"a|b|c" minItems:"2" maxItems:"2"`
		}]{ID: "f", Message: "m"}).Verify(), true},
		{(&steps.Form[struct {
			A int8 `minimum:"-128" maximum:"127"`
		}]{ID: "f", Message: "m"}).Verify(), true},
		{(&steps.Form[struct {
			A int8 `minimum:"-129"`
		}]{ID: "f", Message: "m"}).Verify(), false},
		{(&steps.Form[struct {
			A int8 `maximum:"128"`
		}]{ID: "f", Message: "m"}).Verify(), false},
	} {
		assert.Equal(t, c.ok, c.err == nil, c.err)
	}
	type few struct {
		A []string `enum:"a|b" minItems:"2"`
	}
	form := &steps.Form[few]{ID: "f", Message: "m"}
	_, err := form.With(steps.Choices("A", steps.Choice{Value: "x"}, steps.Choice{Value: "y"})).Step()
	assert.NoError(t, err)
	_, err = form.With(steps.Choices("A", steps.Choice{Value: "x"})).Step()
	assert.ErrorContains(t, err, "minItems 2 is more than there are choices")
}
