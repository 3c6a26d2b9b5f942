package saga_test

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/mcpsaga/mcpsaga/content"
	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/saga"
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
	tool, err := saga.Flow[query, string]{
		Info: saga.Info{Name: "query"},
		Run: func(_ *saga.Run, in query) (string, error) {
			return fmt.Sprintf("%d rows of %s", in.Limit, in.Table), nil
		},
	}.Compile()
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, args := range []string{`{"table":"users"}`, `{"table":"users; DROP TABLE users"}`, `{"table":"users","since":"May"}`} {
		out, err := tool.Start(context.Background(), engine.Call{Arguments: json.RawMessage(args)})
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(out.Result.Content[0].(content.Text).Text)
	}

	type typo struct {
		Limit int `json:"limit" maximun:"100"`
	}
	_, err = saga.Flow[typo, string]{Info: saga.Info{Name: "query"}, Run: func(*saga.Run, typo) (string, error) { return "", nil }}.Compile()
	fmt.Println(err)
	// Output:
	// 20 rows of users
	// The arguments do not fit the tool "query": validating root: validating /properties/table: enum: users; DROP TABLE users does not equal any of: [users orders]
	// The arguments do not fit the tool "query": /since must be a date written as 2026-07-28
	// tool "query": no input schema can be made from the type saga_test.typo of the arguments: saga_test.typo.Limit, tag maximun: is written maximum
}
