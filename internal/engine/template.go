package engine

import (
	"errors"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/yosida95/uritemplate/v3"
)

// uriTemplate finds the variables of a URI template (RFC 6570) in a URI, in time
// that grows with the URI's length alone.
//
// The template becomes a regular expression, as those of package regexp take linear
// time. The library that reads the template can match as well, and agrees with this
// (a test compares them), but takes a thousand times as long: it copies what it has
// found so far at every character.
type uriTemplate struct {
	pattern *regexp.Regexp
	groups  []templateGroup // by number of the pattern's group, from 1 on
	// variables are the names of those in the template.
	variables []string
}

// templateGroup says what a group of the pattern holds.
type templateGroup struct {
	variable string
	// pairs: a list of name=value with this separator; separator: one of values.
	// Where both are empty it is one text, even if it has commas.
	pairs, separator string
}

// Characters that may stand for themselves in a variable's value, and those that
// may do so in values of {+x} and {#x} besides (RFC 6570, 1.5).
const (
	unreserved = `A-Za-z0-9._~\-`
	reserved   = `!#$&-,/:;=?@\[\]`
)

// prefix is a variable of which only the beginning is in the URI.
var prefix = regexp.MustCompile(`\{[^}]*:`)

func newURITemplate(template string) (*uriTemplate, error) {
	parsed, err := uritemplate.New(template)
	if err != nil {
		return nil, err
	}
	if prefix.MatchString(template) {
		return nil, errors.New("a variable with a length, such as {id:3}, does not tell which resource is meant")
	}
	t := &uriTemplate{groups: make([]templateGroup, 1), variables: parsed.Varnames()}
	var b strings.Builder
	b.WriteString(`\A`)
	for template != "" {
		literal, rest, found := strings.Cut(template, "{")
		b.WriteString(regexp.QuoteMeta(literal))
		if !found {
			break
		}
		var expression string
		expression, template, _ = strings.Cut(rest, "}")
		t.expression(&b, expression)
	}
	b.WriteString(`\z`)
	t.pattern, err = regexp.Compile(b.String())
	return t, err
}

// expression writes the pattern of what is between braces. Each of its variables may
// be absent, and all of them.
func (t *uriTemplate) expression(b *strings.Builder, expression string) {
	allowed, first, separator, named, bare := unreserved, "", ",", false, ""
	switch operator := expression[:1]; operator {
	case "+":
		allowed += reserved
	case "#":
		allowed, first = allowed+reserved, "#"
	case ".", "/":
		first, separator = operator, operator
	case ";":
		first, separator, named, bare = ";", ";", true, "?" // a name without a value is an empty one
	case "?", "&":
		first, separator, named = operator, "&", true
	}
	value := `(?:[` + allowed + `]|%[0-9A-Fa-f]{2})*`
	between := regexp.QuoteMeta(separator)
	b.WriteString(`(?:` + regexp.QuoteMeta(first))
	for i, name := range strings.Split(strings.TrimLeft(expression, "+#./;?&"), ",") {
		name, explode := strings.CutSuffix(name, "*")
		g := templateGroup{variable: name}
		b.WriteString(`(?:`)
		if i > 0 {
			b.WriteString(`(?:` + between + `)?`)
		}
		item := regexp.QuoteMeta(name)
		switch {
		case named && explode:
			g.pairs = separator
			item += `(?:=` + value + `)` + bare
			b.WriteString(`(` + item + `(?:` + between + item + `)*)?`)
		case named:
			b.WriteString(item + `(?:=(` + value + `(?:,` + value + `)*))` + bare)
		case explode:
			g.separator = separator
			b.WriteString(`(` + value + `(?:` + between + value + `)*?)`)
		default:
			b.WriteString(`(` + value + `(?:,` + value + `)*?)`)
		}
		b.WriteString(`)?`)
		t.groups = append(t.groups, g)
	}
	b.WriteString(`)?`)
}

// match returns the variables in a URI. One that the URI fills with a list has its
// elements with commas between: it is one text to us all the same.
func (t *uriTemplate) match(uri string) (map[string]string, bool) {
	at := t.pattern.FindStringSubmatchIndex(uri)
	if at == nil {
		return nil, false
	}
	unescaped := func(s string) string {
		text, _ := url.PathUnescape(s) // the pattern has found it to be well-formed
		return text
	}
	found := make(map[string][]string, len(t.groups))
	for i, g := range t.groups {
		if i == 0 || at[2*i] < 0 {
			continue
		}
		text := uri[at[2*i]:at[2*i+1]]
		switch {
		case g.pairs != "":
			for pair := range strings.SplitSeq(text, g.pairs) {
				if _, value, ok := strings.Cut(pair, "="); ok {
					found[g.variable] = append(found[g.variable], unescaped(value))
				}
			}
		case g.separator == "/": // the others can be part of a value, and then are
			for value := range strings.SplitSeq(text, g.separator) {
				found[g.variable] = append(found[g.variable], unescaped(value))
			}
		default:
			found[g.variable] = append(found[g.variable], unescaped(text))
		}
	}
	variables := make(map[string]string, len(found))
	for name, values := range found {
		variables[name] = strings.Join(values, ",")
	}
	return variables, true
}

// checkTemplate holds the variables of a resource's template against its arguments, if
// these are known.
func (info *ResourceInfo) checkTemplate(p *Problems, names []string, known bool) {
	var err error
	if info.template, err = newURITemplate(info.URI); err != nil {
		p.Add(err, "the URI template %q cannot be used", info.URI)
		return
	}
	variables := info.template.variables
	for _, name := range names {
		if !slices.Contains(variables, name) {
			p.Add(nil, "argument %q is no variable of the template %q", name, info.URI)
		}
	}
	for _, v := range variables {
		if known && !slices.Contains(names, v) {
			p.Add(nil, "variable %q of the template %q is no argument", v, info.URI)
		}
	}
}

// maxURI is how long a URI may be, in bytes, that is matched with templates.
const maxURI = 2048
