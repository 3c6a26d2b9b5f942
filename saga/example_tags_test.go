package saga_test

import (
	"fmt"

	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/steps"
)

// Tags say what arguments may be. The client's model reads them in the input schema,
// and what does not fit does not reach the tool.
func Example_tags() {
	type query struct {
		Table  string   `json:"table" enum:"users|orders"`
		Since  string   `json:"since,omitempty" format:"date" jsonschema:"the first day"`
		Fields []string `json:"fields,omitempty" enum:"id|name|total" maxItems:"2" uniqueItems:"true"`
		Limit  int      `json:"limit,omitempty" minimum:"1" maximum:"100" default:"20"`
	}
	tool := saga.Flow[query, string]{
		Info: saga.Info{Name: "query"},
		Run: func(_ *saga.Run, in query) (string, error) {
			return fmt.Sprintf("%d rows of %s", in.Limit, in.Table), nil
		},
	}
	for _, args := range []string{`{"table":"users"}`, `{"table":"users; DROP TABLE users"}`, `{"table":"users","since":"May"}`} {
		begin(tool, steps.AllFeatures(), args)
	}

	type typo struct {
		Limit int `json:"limit" maximun:"100"`
	}
	_, err := saga.Flow[typo, string]{Info: saga.Info{Name: "query"}, Run: func(*saga.Run, typo) (string, error) { return "", nil }}.Compile()
	fmt.Println(err)
	// Output:
	// caller: 20 rows of users
	// caller: The arguments do not fit the tool "query": validating root: validating /properties/table: enum: users; DROP TABLE users does not equal any of: [users orders]
	// caller: The arguments do not fit the tool "query": /since must be a date written as 2026-07-28
	// tool "query": no input schema can be made from the type saga_test.typo of the arguments: saga_test.typo.Limit, tag maximun: is written maximum
}
