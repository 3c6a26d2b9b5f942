package engine

import (
	"context"
	"maps"
	"net/url"
	"slices"
	"unicode/utf8"

	"github.com/mcpsaga/mcpsaga/content"
)

// Messages is the result of a prompt: MCP's GetPromptResult.
type Messages struct {
	// Description tells what the messages are for.
	Description string `json:"description,omitzero"`
	// Messages are the messages to give to a model.
	Messages []content.Message `json:"messages"`
}

// PromptArgument describes an argument of a prompt. All are strings.
type PromptArgument struct {
	// Name is the argument's name.
	Name string `json:"name"`
	// Title is its name for people, from the tag title, or empty.
	Title string `json:"title,omitzero"`
	// Description says what it is for.
	Description string `json:"description,omitzero"`
	// Required says that it must be given.
	Required bool `json:"required,omitzero"`
}

// ResourceInfo is what lists show of a resource besides its name.
type ResourceInfo struct {
	// URI is the resource's address, or the template of those of many (RFC 6570).
	URI string
	// Template reports that URI is a template.
	Template bool
	// MIMEType is the type of the contents, or empty.
	MIMEType string
	template *uriTemplate
}

// Match reports whether the resource is at uri, and with what variables of its
// template. Those are text: bytes that are none name no resource.
func (r *ResourceInfo) Match(uri string) (variables map[string]string, ok bool) {
	switch {
	case !r.Template:
		return nil, uri == r.URI
	case len(uri) > maxURI:
		return nil, false
	}
	variables, ok = r.template.match(uri)
	for _, v := range variables {
		ok = ok && utf8.ValidString(v)
	}
	return variables, ok
}

// completer is saga.Completer.
type completer = func(ctx context.Context, typed string, others map[string]string) ([]string, error)

// MakePrompt makes a prompt of a tool that was checked.
func (t *Program) MakePrompt(complete map[string]completer) error {
	names, err := t.ofStrings(KindPrompt, complete)
	if err != nil {
		return err
	}
	input := t.input.Schema()
	t.Arguments = []PromptArgument{}
	for _, name := range names {
		t.Arguments = append(t.Arguments, PromptArgument{
			Name: name, Title: input.Properties[name].Title, Description: input.Properties[name].Description, Required: slices.Contains(input.Required, name),
		})
	}
	return nil
}

// ofStrings makes the program one of another kind, all of whose arguments are strings,
// and returns their names.
func (t *Program) ofStrings(kind Kind, complete map[string]completer) ([]string, error) {
	t.Kind, t.Target, t.Complete = kind, target(kind, t.Name), complete
	p := &Problems{Tool: t.Name}
	input := t.input.Schema()
	for _, name := range input.PropertyOrder {
		if input.Properties[name].Type != "string" {
			p.Add(nil, "argument %q is not a string; those of a %v are", name, kind)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(complete)) {
		if input.Properties[name] == nil || complete[name] == nil {
			p.Add(nil, "Complete[%q] is nil or not for an argument", name)
		}
	}
	return input.PropertyOrder, p.Err()
}

// Address is where a resource is: at a URI, or at those of a template.
type Address struct{ URI, Template, MIMEType string }

// MakeResource makes a resource of a tool that was checked; t is nil if that found
// problems, which p has.
func (t *Program) MakeResource(p *Problems, at Address, complete map[string]completer) error {
	var names []string
	if t != nil {
		var err error
		if names, err = t.ofStrings(KindResource, complete); err != nil {
			p.list, names = append(p.list, err), nil
		}
	}
	known := len(p.list) == 0
	info := &ResourceInfo{URI: at.URI, MIMEType: at.MIMEType}
	switch {
	case (at.URI == "") == (at.Template == ""):
		p.Add(nil, "a resource has either a URI or a Template")
	case at.Template != "":
		info.URI, info.Template = at.Template, true
		info.checkTemplate(p, names, known)
	default:
		if u, err := url.Parse(at.URI); err != nil || !u.IsAbs() {
			p.Add(err, "the URI %q is not absolute", at.URI)
		}
		if len(names) > 0 {
			p.Add(nil, "a resource without a template has no arguments")
		}
	}
	if err := p.Err(); err != nil {
		return err
	}
	t.Resource = info
	return nil
}
