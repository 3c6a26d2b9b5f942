package saga

import "github.com/mcpsaga/mcpsaga/internal/engine"

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
	if err := t.MakeResource(p, engine.Address{URI: r.URI, Template: r.Template, MIMEType: r.MIMEType}, r.Complete); err != nil {
		return nil, err
	}
	return t, nil
}
