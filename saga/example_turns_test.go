package saga_test

import (
	"context"
	"fmt"

	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/steps"
)

// turns is a saga whose turns an example takes one by one, as a server does for its
// clients. It prints how each ends.
type turns struct {
	tool     *engine.Program
	client   steps.Features
	position *engine.Position
}

// begin calls a tool for a client that can do so much.
func begin(d saga.Definition, client steps.Features, args string) *turns {
	s := &turns{client: client}
	s.deploy(d)
	s.ended(s.tool.Start(context.Background(), engine.Call{Client: client, Arguments: []byte(args)}))
	return s
}

// deploy has the next turns taken by another revision of the tool.
func (s *turns) deploy(d saga.Definition) {
	tool, err := d.Compile()
	if err != nil {
		panic(err)
	}
	s.tool = tool
}

// accept fills in a form. After the last turn it takes that again, as for a client that
// has lost the response.
func (s *turns) accept(question, content string) {
	answer := steps.Answer{StepID: question, Result: []byte(`{"action":"accept","content":` + content + `}`)}
	s.ended(s.tool.Resume(context.Background(), s.position, engine.Call{Client: s.client, Answers: []steps.Answer{answer}}))
}

func (s *turns) ended(out *engine.Outcome, err error) {
	if err != nil {
		fmt.Println("failed:", err)
		return
	}
	for _, step := range out.Steps {
		fmt.Println("asked:", step.ID)
	}
	if out.Result != nil {
		fmt.Println("caller:", out.Result.Content.Text())
	}
	if out.Err != nil {
		fmt.Println("log:", out.Err)
	}
	if out.Position != nil {
		s.position = out.Position
	}
}
