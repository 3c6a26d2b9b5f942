package saga

import (
	"github.com/mcpsaga/mcpsaga/internal/engine"
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
	return t, t.MakePrompt(p.Complete)
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
		{"Yields", m.Yields}, {"Tasks", m.Tasks != Tasks{}},
	} {
		if field.given {
			p.Add(nil, "%s cannot have %s; what needs them is a tool", what, field.name)
		}
	}
	return t, p.Err()
}

// Resource is a resource, or with a template a family of them, that may ask
// before it gives its contents. It is written like a [Machine]; its step
// functions end with Contents, or with [ErrNotFound].
//
// Exactly one of URI and Template is set. Args must be a struct of strings that
// has the template's variables as its JSON names; without a template it is an
// empty struct.
//
// A resource has no effects, for the reasons that a [Prompt] has none: to read must
// not change the world. Hosts and proxies also keep what they have read, and then do
// not ask again.
type Resource[Args, State any] struct {
	Machine[Args, State]
	// URI is the resource's address.
	URI string
	// Template is a URI template (RFC 6570), such as "notes://{id}".
	Template string
	// MIMEType is the type of the contents, if all have the same.
	MIMEType string
	// Complete suggests values for the template's variables, by name.
	Complete map[string]Completer
}

// Compile implements [Definition].
func (r Resource[Args, State]) Compile() (*engine.Program, error) {
	t, err := r.compile("a resource")
	p := &engine.Problems{Tool: r.Name}
	if err != nil {
		t = nil
		p.Join(err)
	}
	return t, t.MakeResource(p, engine.Address{URI: r.URI, Template: r.Template, MIMEType: r.MIMEType}, r.Complete)
}
