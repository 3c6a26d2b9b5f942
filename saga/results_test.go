package saga_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/sagatest"
)

// Address is embedded by pointer.
type Address struct {
	City string `json:"city"`
}

// A result of the declared type fits the schema that is made of it, also if nothing is in it.
func TestResultsWithNothingInThem(t *testing.T) {
	type inner struct {
		Tags map[string][]string `json:"tags"`
	}
	type result struct {
		*Address
		Counts map[string]int `json:"counts"`
		Inner  inner          `json:"inner"`
		List   []string       `json:"list"`
		Next   *inner         `json:"next"`
	}
	for name, test := range map[string]struct {
		give result
		want string
	}{
		"nothing": {result{}, `{"counts":{},"inner":{"tags":{}},"list":null,"next":null}`},
		"all": {
			result{&Address{"Bern"}, map[string]int{"a": 1}, inner{map[string][]string{"b": nil}}, []string{"c"}, &inner{}},
			`{"city":"Bern","counts":{"a":1},"inner":{"tags":{"b":null}},"list":["c"],"next":{"tags":{}}}`,
		},
	} {
		flow := saga.Flow[struct{}, result]{Info: saga.Info{Name: "x"}, Run: func(*saga.Run, struct{}) (result, error) { return test.give, nil }}
		machine := saga.Machine[struct{}, struct{}]{Info: saga.Info{Name: "y"}, Start: func(t *saga.Turn[struct{}, struct{}]) (saga.Next, error) { return t.Structured(test.give) }}
		for _, tool := range []saga.Definition{flow, machine} {
			played := sagatest.Play(t, tool, nil)
			require.NoError(t, played.Err, name)
			assert.JSONEq(t, test.want, string(played.Result.StructuredContent), name)
		}
	}
}
