package saga

import (
	"net/url"
	"slices"
	"time"

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

// Tool implements [Definition].
func (r Resource[Args, State]) Tool() (*Tool, error) {
	t, names, err := stringsTool(KindResource, Machine[Args, State]{
		Name: r.Name, Title: r.Title, Description: r.Description, Revision: r.Revision, Upgrades: r.Upgrades, Renamed: r.Renamed,
		Asks: r.Asks, Start: r.Start, Steps: r.Steps, MaxAge: r.MaxAge, MaxAttempts: r.MaxAttempts, Encoding: r.Encoding,
	}, r.Complete)
	p := &problems{tool: r.Name}
	if err != nil {
		p.list, names = append(p.list, err), nil
	}
	info := &ResourceInfo{URI: r.URI, MIMEType: r.MIMEType}
	switch {
	case (r.URI == "") == (r.Template == ""):
		p.add(nil, "a resource has either a URI or a Template")
	case r.Template != "":
		info.URI, info.Template = r.Template, true
		info.matchTemplate(p, r.Template, names, err == nil)
	default:
		if u, err := url.Parse(r.URI); err != nil || !u.IsAbs() {
			p.add(err, "the URI %q is not absolute", r.URI)
		}
		if len(names) > 0 {
			p.add(nil, "a resource without a template has no arguments")
		}
		info.match = func(uri string) (map[string]string, bool) { return nil, uri == r.URI }
		info.serves = func(uri string) bool { return uri == r.URI }
	}
	if err := p.err(); err != nil {
		return nil, err
	}
	t.Resource = info
	return t, nil
}

// matchTemplate has URIs matched with a template. The names of the arguments are those
// of its variables, if they are known.
func (info *ResourceInfo) matchTemplate(p *problems, template string, names []string, known bool) {
	parsed, err := newURITemplate(template)
	if err != nil {
		p.add(err, "the URI template %q cannot be used", template)
		return
	}
	variables := parsed.variables()
	for _, name := range names {
		if !slices.Contains(variables, name) {
			p.add(nil, "argument %q is no variable of the template %q", name, template)
		}
	}
	for _, v := range variables {
		if known && !slices.Contains(names, v) {
			p.add(nil, "variable %q of the template %q is no argument", v, template)
		}
	}
	info.match = func(uri string) (map[string]string, bool) {
		if len(uri) > maxURI {
			return nil, false
		}
		return parsed.match(uri)
	}
	info.serves = func(uri string) bool { return len(uri) <= maxURI && parsed.matches(uri) }
}

// maxURI is how long a URI may be, in bytes, that is matched with templates.
const maxURI = 2048
