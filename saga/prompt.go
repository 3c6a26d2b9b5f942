package saga

import (
	"time"

	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/steps"
)

// Prompt is a prompt that may ask before it gives its messages. It is written
// like a [Machine]; its step functions end with Messages.
//
// Args must be a struct of strings: MCP gives prompts no other arguments. Fields
// tagged omitempty are optional, jsonschema tags describe them, and the other tags are
// those of a [Machine]'s arguments.
//
// A prompt has no effects: to get one must not change the world. Hosts may do so for
// a preview, and as often as they like; and the result has no place to say what was
// undone. What acts is a tool.
type Prompt[Args, State any] struct {
	// Name identifies the prompt: 1 to 128 of A-Z a-z 0-9 _ - .
	Name string
	// Title and Description are for people.
	Title, Description string
	// Revision, Upgrades, Renamed, Asks, Start, Steps, MaxAge, MaxAttempts and
	// Encoding are as in a [Machine].
	Revision    uint32
	Upgrades    map[uint32]Upgrade[State]
	Renamed     map[string]string
	Asks        []steps.Question
	Start       Func[Args, State]
	Steps       Steps[Args, State]
	MaxAge      time.Duration
	MaxAttempts int
	Encoding    Encoding
	// Complete suggests values for arguments, by name.
	Complete map[string]Completer
}

// Compile implements [Definition].
func (p Prompt[Args, State]) Compile() (*engine.Program, error) {
	t, err := Machine[Args, State]{
		Name: p.Name, Title: p.Title, Description: p.Description, Revision: p.Revision, Upgrades: p.Upgrades, Renamed: p.Renamed,
		Asks: p.Asks, Start: p.Start, Steps: p.Steps, MaxAge: p.MaxAge, MaxAttempts: p.MaxAttempts, Encoding: p.Encoding,
	}.Compile()
	if err != nil {
		return nil, err
	}
	if err := t.MakePrompt(p.Complete); err != nil {
		return nil, err
	}
	return t, nil
}
