package saga

import (
	"time"

	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/steps"
)

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
	// Name identifies the resource: 1 to 128 of A-Z a-z 0-9 _ - .
	Name string
	// Title and Description are for people.
	Title, Description string
	// URI is the resource's address.
	URI string
	// Template is a URI template (RFC 6570), such as "notes://{id}".
	Template string
	// MIMEType is the type of the contents, if all have the same.
	MIMEType string
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
	// Complete suggests values for the template's variables, by name.
	Complete map[string]Completer
}

// Compile implements [Definition].
func (r Resource[Args, State]) Compile() (*engine.Program, error) {
	t, err := Machine[Args, State]{
		Name: r.Name, Title: r.Title, Description: r.Description, Revision: r.Revision, Upgrades: r.Upgrades, Renamed: r.Renamed,
		Asks: r.Asks, Start: r.Start, Steps: r.Steps, MaxAge: r.MaxAge, MaxAttempts: r.MaxAttempts, Encoding: r.Encoding,
	}.Compile()
	p := &engine.Problems{Tool: r.Name}
	if err != nil {
		p.Join(err)
	}
	if err := t.MakeResource(p, engine.Address{URI: r.URI, Template: r.Template, MIMEType: r.MIMEType}, r.Complete); err != nil {
		return nil, err
	}
	return t, nil
}
