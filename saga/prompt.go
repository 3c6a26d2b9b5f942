package saga

import "github.com/mcpsaga/mcpsaga/internal/engine"

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
	Machine[Args, State]
	// Complete suggests values for arguments, by name.
	Complete map[string]Completer
}

// Compile implements [Definition].
func (p Prompt[Args, State]) Compile() (*engine.Program, error) {
	t, err := p.compile("a prompt")
	if err != nil {
		return nil, err
	}
	if err := t.MakePrompt(p.Complete); err != nil {
		return nil, err
	}
	return t, nil
}

// compile compiles a machine that is no tool, and so lacks some of what tools have.
func (m *Machine[Args, State]) compile(what string) (*engine.Program, error) {
	t, err := m.Compile()
	p := &engine.Problems{Tool: m.Name}
	p.Join(err)
	for _, field := range []struct {
		name  string
		given bool
	}{
		{"Effects", m.Effects != nil}, {"Annotations", m.Annotations != nil}, {"OutputSchema", m.OutputSchema != nil},
		{"InputSchema", m.InputSchema != nil}, {"RawInputSchema", m.RawInputSchema != nil},
	} {
		if field.given {
			p.Add(nil, "%s cannot have %s; what needs them is a tool", what, field.name)
		}
	}
	return t, p.Err()
}
