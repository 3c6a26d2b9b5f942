package saga

import (
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/yosida95/uritemplate/v3"

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
		info.match = matchTemplate(p, r.Template, names, err == nil)
	default:
		if u, err := url.Parse(r.URI); err != nil || !u.IsAbs() {
			p.add(err, "the URI %q is not absolute", r.URI)
		}
		if len(names) > 0 {
			p.add(nil, "a resource without a template has no arguments")
		}
		info.match = func(uri string) (map[string]string, bool) { return nil, uri == r.URI }
	}
	if err := p.err(); err != nil {
		return nil, err
	}
	t.Resource = info
	return t, nil
}

// matchTemplate returns what matches URIs with a template. The names of the arguments
// are those of its variables, if they are known.
func matchTemplate(p *problems, template string, names []string, known bool) func(uri string) (map[string]string, bool) {
	parsed, err := uritemplate.New(template)
	if err != nil {
		p.add(err, "the URI template %q is not valid", template)
		return nil
	}
	variables := parsed.Varnames()
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
	return func(uri string) (map[string]string, bool) {
		if !matchable(template, uri) {
			return nil, false
		}
		values := parsed.Match(uri)
		if values == nil {
			return nil, false
		}
		found := make(map[string]string, len(values))
		for name, v := range values {
			// A comma makes a value a list. It is one text to us all the same: an empty
			// one would be another resource.
			found[name] = strings.Join(v.V, ",")
		}
		return found, true
	}
}

// Limits of the URIs that are matched with templates. Clients choose them, and the
// matcher's work grows with their length times the number of list elements in them.
const (
	maxURI          = 2048
	maxListElements = 64
)

// matchable reports whether a URI is one that a template may be matched with.
func matchable(template, uri string) bool {
	if len(uri) > maxURI {
		return false
	}
	separators := ","
	if strings.Contains(template, "*") { // each operator that explodes has its own
		separators = ",./;&"
	}
	elements := 0
	for i := range len(uri) {
		if strings.IndexByte(separators, uri[i]) >= 0 {
			elements++
		}
	}
	return elements <= maxListElements
}
