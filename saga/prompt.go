package saga

import (
	"maps"
	"slices"
	"time"

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

// Tool implements [Definition].
func (p Prompt[Args, State]) Tool() (*Tool, error) {
	t, names, err := stringsTool(KindPrompt, Machine[Args, State]{
		Name: p.Name, Title: p.Title, Description: p.Description, Revision: p.Revision, Upgrades: p.Upgrades, Renamed: p.Renamed,
		Asks: p.Asks, Start: p.Start, Steps: p.Steps, MaxAge: p.MaxAge, MaxAttempts: p.MaxAttempts, Encoding: p.Encoding,
	}, p.Complete)
	if err != nil {
		return nil, err
	}
	schema := t.input.Schema()
	info := &PromptInfo{Arguments: []PromptArgument{}}
	for _, name := range names {
		info.Arguments = append(info.Arguments, PromptArgument{
			Name: name, Title: schema.Properties[name].Title, Description: schema.Properties[name].Description, Required: slices.Contains(schema.Required, name),
		})
	}
	t.Prompt = info
	return t, nil
}

// stringsTool makes a tool of another kind, all of whose arguments are strings,
// and returns their names.
func stringsTool[Args, State any](kind Kind, m Machine[Args, State], complete map[string]Completer) (*Tool, []string, error) {
	t, err := m.Tool()
	if err != nil {
		return nil, nil, err
	}
	t.Kind, t.Complete = kind, complete
	p := &problems{tool: m.Name}
	schema := t.input.Schema()
	for _, name := range schema.PropertyOrder {
		if schema.Properties[name].Type != "string" {
			p.add(nil, "argument %q is not a string; those of a %v are", name, kind)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(complete)) {
		if schema.Properties[name] == nil || complete[name] == nil {
			p.add(nil, "Complete[%q] is nil or not for an argument", name)
		}
	}
	return t, schema.PropertyOrder, p.err()
}
