package auth

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server"
)

// Method is one way of finding out who sends a request. It returns [ErrNone] if the request has no credentials of its
// kind; an error that [server.TryAgain] made if it cannot tell now; and any other error if the credentials are bad: that is
// for the log, and clients do not see it. Many goroutines use it at once.
type Method interface {
	// Identify says who sends a request.
	Identify(*http.Request) (saga.Caller, error)
}

// ErrNone says that a request has no credentials of a [Method]'s kind.
var ErrNone = errors.New("no credentials of this kind")

// Options say who may call a server. Resource and Methods are required.
type Options struct {
	// Resource is the endpoint's URL, as clients know it: "https://tools.example.com/mcp".
	Resource string
	// Methods are asked in their order, until one does not return [ErrNone].
	Methods []Method
	// AuthorizationServers are the issuers at which clients may get tokens.
	AuthorizationServers []string

	// Scopes are what every request takes.
	Scopes []string
	// Tools, Prompts and Resources are what some take besides, by their names.
	Tools, Prompts, Resources map[string][]string
	// FirstScopes are what the first challenge has clients ask for. By default they are Scopes, the least. Name more for
	// clients that register themselves with what they are asked to first, and can have no more later.
	FirstScopes []string
	// Hide leaves out of lists what a caller lacks a scope for. Otherwise it is there, and its challenge names the scope.
	Hide bool
	// Covers says whether a scope that was granted is enough where another is needed. By default it is if it is the same,
	// or the beginning before a colon: "tools" covers "tools:read".
	Covers func(granted, needed string) bool
	// ScopePrefix stands before the scopes in challenges and metadata, such as "api://tools/" with Entra ID,
	// whose tokens have them without.
	ScopePrefix string

	// DPoP takes access tokens that are bound to a key of their client's, if each request proves that it has the key (RFC 9449).
	// They are refused otherwise. A proof is for this Resource's URL, at most five minutes old, and taken once by each replica,
	// which remembers the last 50 000. RequireDPoP, which needs DPoP and Methods of this package, refuses access tokens that
	// are not bound.
	DPoP, RequireDPoP bool

	// MetadataURL is where clients find the metadata, if it is not at the well-known place of Resource.
	MetadataURL string
	// Name and Documentation (a URL) are for people who look at the metadata.
	Name, Documentation string
}

// Guard decides who may call a server, and what. Many goroutines may use it at once.
type Guard struct {
	opts     Options
	needs    map[string]map[string][]string // the scopes that things take, by their kinds and names
	known    []string                       // the scopes that mean something here
	metadata metadata
}

// New returns a Guard, or says what is wrong with the options.
func New(o Options) (*Guard, error) {
	if o.Covers == nil {
		o.Covers = covers
	}
	if o.FirstScopes == nil {
		o.FirstScopes = o.Scopes
	}
	if len(o.Methods) == 0 || slices.Contains(o.Methods, nil) {
		return nil, errors.New("auth: Options.Methods needs at least one way of finding out who calls, and no nil")
	}
	known := slices.Concat(o.Scopes, o.FirstScopes)
	needs := map[string]map[string][]string{"tool": o.Tools, "prompt": o.Prompts, "resource": o.Resources}
	for _, of := range needs {
		for _, scopes := range of {
			known = append(known, scopes...)
		}
	}
	slices.Sort(known)
	g := &Guard{opts: o, needs: needs, known: slices.Compact(known)}
	for _, s := range g.known {
		if !isScope(o.ScopePrefix + s) {
			return nil, fmt.Errorf("auth: %q is no scope: it needs visible characters, without spaces, quotes and backslashes", o.ScopePrefix+s)
		}
	}
	var err error
	if g.metadata, err = g.newMetadata(); err == nil && (o.DPoP || o.RequireDPoP) {
		err = g.prove()
	}
	return g, err
}

// prove has the methods for access tokens take those that are bound to keys.
func (g *Guard) prove() error {
	if !g.opts.DPoP {
		return errors.New("auth: Options.RequireDPoP needs DPoP")
	}
	p := newProofs(g.opts.Resource, g.opts.RequireDPoP)
	g.opts.Methods = slices.Clone(g.opts.Methods)
	for i, m := range g.opts.Methods {
		switch m := m.(type) {
		case *tokenMethod:
			g.opts.Methods[i] = m.proving(p)
		case *APIKeys, *proxyMethod: // have no access tokens
		default:
			if g.opts.RequireDPoP {
				return fmt.Errorf("auth: Options.RequireDPoP cannot be held by the method %T, which is not of this package: it may take tokens of bearers", m)
			}
		}
	}
	return nil
}

// Probe asks issuers for what their tokens are checked by, as the first token does, and says why that cannot be had. A server
// need not call it, nor end for its error: until it can be had, tokens get the status 503.
func (g *Guard) Probe(ctx context.Context) error {
	var all error
	for _, m := range g.opts.Methods {
		if p, ok := m.(*tokenMethod); ok {
			all = errors.Join(all, p.probe(ctx))
		}
	}
	return all
}

// Secure has a server ask this Guard, and serve its metadata. It fails if a tool, prompt or resource that takes scopes is not among the options'.
func (g *Guard) Secure(o *server.Options) error {
	names := map[string]bool{}
	for _, d := range o.Tools {
		p, err := d.Compile()
		if err != nil {
			return fmt.Errorf("auth: %w", err)
		}
		names[p.Kind.String()+" "+p.Name] = true
	}
	for kind, of := range g.needs {
		for name := range of {
			if !names[kind+" "+name] {
				return fmt.Errorf("auth: scopes are demanded for the %s %q, which the server does not have", kind, name)
			}
		}
	}
	o.Authenticate, o.Permit = g.Authenticate, g.Permit
	wrap := o.Wrap
	o.Wrap = func(h http.Handler) http.Handler {
		if wrap != nil {
			h = wrap(h)
		}
		return g.Handler(h)
	}
	return nil
}

// Authenticate is for [server.Options]: it finds out who calls, and whether they may at all.
func (g *Guard) Authenticate(r *http.Request) (saga.Caller, error) {
	for _, m := range g.opts.Methods {
		who, err := m.Identify(r)
		switch {
		case err == nil && g.has(who, g.opts.Scopes):
			return who, nil
		case err == nil:
			return saga.Caller{}, g.forbidden(who, r, nil)
		case errors.Is(err, ErrNone):
			continue
		}
		if _, refused := errors.AsType[*server.AuthError](err); refused || isLater(err) {
			return saga.Caller{}, err
		}
		if _, proof := errors.AsType[proofError](err); proof {
			return saga.Caller{}, g.unauthorized(r, "invalid_dpop_proof", err)
		}
		return saga.Caller{}, g.unauthorized(r, "invalid_token", err)
	}
	if len(r.Header.Values("Authorization")) > 0 {
		return saga.Caller{}, g.unauthorized(r, "invalid_token", errors.New("credentials of no kind that is taken here"))
	}
	return saga.Caller{}, g.unauthorized(r, "", errors.New("no credentials"))
}

// Permit is for [server.Options]: it says whether a caller has the scopes that something takes.
func (g *Guard) Permit(_ context.Context, who saga.Caller, kind, name string) error {
	needs := g.needs[kind][name]
	switch {
	case g.has(who, g.opts.Scopes) && g.has(who, needs):
		return nil
	case g.opts.Hide:
		return server.ErrHidden
	}
	return g.forbidden(who, nil, needs)
}

// Require is a handler for those only who may call, for a server that is not this project's. Its refusals are those that
// [server.Server] has, also for tools and prompts whose scopes a caller lacks, as far as a request names them.
func (g *Guard) Require(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		who, err := g.Authenticate(r)
		if err == nil {
			r = r.WithContext(r.Context()) // a copy, whose body may be another
			err = g.ahead(r, who)
		}
		if err != nil {
			refuse(w, err)
			return
		}
		next.ServeHTTP(w, r)
	})
}
