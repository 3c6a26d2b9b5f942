package gosdk

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"runtime"
	"sync"
	"time"
	"weak"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpsaga/mcpsaga/codec"
	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/internal/tally"
	"github.com/mcpsaga/mcpsaga/ledger"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server"
	"github.com/mcpsaga/mcpsaga/steps"
)

// Options say how sagas are served. Only Keys is required.
type Options struct {
	// Keys seal the tokens. All replicas of a deployment need the same keyset.
	Keys *codec.Keyset
	// Audience, TokenTTL, UndoGrace, TurnTimeout, Ledger, LedgerLimit, CallerRate, ToolRates, MaxTurns, Hooks, Sampler, Logger
	// and Now are those of [server.Options]. With a Ledger, goroutines undo abandoned sagas and
	// work on tasks until [Mounted.Shutdown] is called, or the ledger's store is closed. Hooks
	// are called for sagas and for lists of tools, with Permit for all lists; around other tools there is the SDK's middleware. Anonymous callers have
	// one rate, and what is refused has an error without an HTTP status of its own.
	Audience    string
	TokenTTL    time.Duration
	UndoGrace   time.Duration
	TurnTimeout time.Duration
	Ledger      ledger.Store
	LedgerLimit int
	CallerRate  server.Rate
	ToolRates   map[string]server.Rate
	MaxTurns    int
	Hooks       []server.Hooks
	Sampler     func(context.Context, *steps.SampleRequest) (*steps.SampleResult, error)
	Logger      *slog.Logger
	Now         func() time.Time
	// Questions is that of [server.Options].
	Questions server.Questions
	// Caller says whom a verified bearer token stands for. Its error refuses the
	// request. By default it takes UserID for the subject, and the claims "iss" and
	// "client_id" from Extra for the issuer and the client if they are there as strings, and
	// refuses a token without a UserID: all users would be one. The scopes are the token's. Requests without a token,
	// which come only where the SDK's server asks for none, are anonymous, the zero [saga.Caller].
	Caller func(*auth.TokenInfo) (saga.Caller, error)
	// Permit is that of [server.Options], for what is mounted. What takes another permission is refused by an error without
	// an HTTP status of its own: the SDK has begun the response by then. Package auth's Guard.Require is asked before.
	Permit func(ctx context.Context, who saga.Caller, kind, name string) error
}

// Mounted is what [Mount] has added to a server.
type Mounted struct {
	server *server.Server
	caller func(*auth.TokenInfo) (saga.Caller, error)
	log    *slog.Logger
	ledger ledger.Store // or nil
	// tools are those that are mounted, as the SDK lists them; prompts and resources are names and addresses.
	tools              map[string]*mcp.Tool
	prompts, resources map[string]bool
	// permits: not all callers may see all.
	permits bool
	// tasks are the tools whose calls may become tasks.
	tasks map[string]bool
	// calls are under way, and unsaid are those whose result the SDK has not written yet.
	calls, unsaid tally.Tally
}

// mounted has the servers with a Mount, by weak pointers. The SDK does not say whose a method is.
var mounted sync.Map

// Mount adds tools, prompts and resources to a server that is not serving yet. One
// of the same name that the server has already is replaced. If a definition cannot
// be served, nothing is added. Mount everything at once: a second Mount fails.
//
// Middleware that is added to the server after Mount sees all requests. What was
// added before does not see completion/complete for what is mounted. Middleware
// that lets callers use some tools and not others finds out with [CalledTool] which
// one is called: tools/call is not the only method that calls one.
func Mount(s *mcp.Server, o Options, sagas ...saga.Definition) (*Mounted, error) {
	switch {
	case s == nil:
		return nil, errors.New("gosdk: the server is nil")
	case o.Keys == nil:
		return nil, errors.New("gosdk: Options.Keys is required; make a keyset with codec.NewKeyset or load one")
	case o.Caller == nil:
		o.Caller = callerOfUser
	}
	tasks := map[string]bool{}
	for _, d := range sagas {
		if d == nil {
			continue // New says so
		}
		p, err := d.Compile()
		switch {
		case err != nil: // as well
		case p.AsksOthers():
			// On the pages of a mount no one is known: only a server's Authenticate says who opens one.
			err = &saga.DefinitionError{Tool: p.Name, Problem: "it asks others than its caller (By), and who opens a page of a mount is not known: serve it with package server, whose Options.Authenticate knows them"}
			return nil, fmt.Errorf("gosdk: %w", err)
		case o.Ledger != nil && p.Kind == engine.KindTool && p.Tasks.Mode != engine.TasksForbidden:
			tasks[p.Name] = true
		}
	}
	o.Logger = cmp.Or(o.Logger, slog.Default())
	inner, err := server.New(server.Options{
		Tools: sagas, Keys: o.Keys, Audience: o.Audience, TokenTTL: o.TokenTTL, UndoGrace: o.UndoGrace,
		TurnTimeout: o.TurnTimeout, Ledger: o.Ledger, LedgerLimit: o.LedgerLimit, CallerRate: o.CallerRate, ToolRates: o.ToolRates, MaxTurns: o.MaxTurns, Hooks: o.Hooks, Sampler: o.Sampler, Logger: o.Logger, Now: o.Now, Questions: o.Questions, Permit: o.Permit,
		PageSize: math.MaxInt, // pages are the SDK's
	})
	if err != nil {
		return nil, fmt.Errorf("gosdk: %w", err)
	}
	m := &Mounted{server: inner, caller: o.Caller, permits: o.Permit != nil, log: o.Logger, ledger: o.Ledger, tasks: tasks}
	entries, err := m.entries()
	if err != nil {
		return nil, fmt.Errorf("gosdk: %w", err)
	}
	// The SDK panics in the middle about what it does not take. Let it do so here.
	if err := entries.add(mcp.NewServer(&mcp.Implementation{Name: "trial"}, nil), m); err != nil {
		return nil, err
	}
	at := weak.Make(s)
	if _, taken := mounted.LoadOrStore(at, nil); taken {
		return nil, errors.New("gosdk: the server has a Mount already; give all sagas to one")
	}
	runtime.AddCleanup(s, mounted.Delete, any(at))
	if err := m.addMethods(s); err != nil {
		return nil, fmt.Errorf("gosdk: %w", err)
	}
	s.AddReceivingMiddleware(m.middleware)
	s.AddSendingMiddleware(listen)
	if err := entries.add(s, m); err != nil {
		return nil, err
	}
	_ = inner.Handler() // which begins to look for abandoned sagas: no request may come for long
	return m, nil
}

// sayTime is how long Shutdown waits for results to be written, as a client may not read.
const sayTime = 5 * time.Second

// Shutdown ends the wait for answers of older clients, now and from now on, and
// waits until what their calls have done is undone, and all other calls have ended,
// or until ctx ends, whose error it then returns. The ledger's goroutine ends, too.
// For clients that do not read their results it waits no longer than a few seconds.
// Call it before the sessions of the server are closed, and before the end of the
// process: the SDK waits for neither, and a session that is being closed writes no results.
func (m *Mounted) Shutdown(ctx context.Context) error {
	m.server.CloseStreams()
	err := m.calls.Wait(ctx)
	defer func() {
		ctx, cancel := context.WithTimeout(ctx, sayTime)
		defer cancel()
		_ = m.unsaid.Wait(ctx)
	}()
	if m.ledger == nil {
		return err
	}
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		m.server.Close()
	}()
	select {
	case <-closed:
		return err
	case <-ctx.Done():
		return cmp.Or(err, ctx.Err())
	}
}

// Pages is [server.Server.Pages] of what is mounted: for the mux beside the SDK's own handler.
func (m *Mounted) Pages() http.Handler { return m.server.Pages() }

// SetKeys replaces the keyset, for a rotation without a restart. Turns under way
// end with the keyset they began with.
func (m *Mounted) SetKeys(k *codec.Keyset) { m.server.SetKeys(k) }

// callerOfUser is the default of Options.Caller.
func callerOfUser(t *auth.TokenInfo) (saga.Caller, error) {
	if t.UserID == "" {
		return saga.Caller{}, errors.New("the token verifier sets no UserID; have it set one, or give Options.Caller")
	}
	claim := func(name string) string {
		s, _ := t.Extra[name].(string)
		return s
	}
	return saga.Caller{Issuer: claim("iss"), Subject: t.UserID, Client: claim("client_id"), Scopes: t.Scopes}, nil
}

// entries are what the server's lists show of the sagas.
type entries struct {
	tools     []*mcp.Tool
	prompts   []*mcp.Prompt
	resources []*mcp.Resource
	templates []*mcp.ResourceTemplate
}

func (m *Mounted) entries() (*entries, error) {
	e, listed := new(entries), m.server.Entries("tools/list")
	err := errors.Join(
		decode(&e.tools, listed),
		decode(&e.prompts, m.server.Entries("prompts/list")),
		decode(&e.resources, m.server.Entries("resources/list")),
		decode(&e.templates, m.server.Entries("resources/templates/list")))
	if err != nil {
		return nil, err
	}
	m.tools, m.prompts, m.resources = map[string]*mcp.Tool{}, map[string]bool{}, map[string]bool{}
	for i, t := range e.tools {
		e.tools[i] = withSchemas(t, listed[i])
		m.tools[t.Name] = e.tools[i]
	}
	for _, p := range e.prompts {
		m.prompts[p.Name] = true
	}
	for _, r := range e.resources {
		m.resources[r.URI] = true
	}
	for _, t := range e.templates {
		m.resources[t.URITemplate] = true
	}
	return e, nil
}

func decode[T any](into *[]*T, entries []json.RawMessage) error {
	list, err := json.Marshal(entries)
	return errors.Join(err, json.Unmarshal(list, into))
}

// add registers the entries. The SDK panics about those that it does not take.
func (e *entries) add(s *mcp.Server, m *Mounted) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("gosdk: the SDK does not take a definition: %v", v)
		}
	}()
	for _, t := range e.tools {
		s.AddTool(t, m.callTool)
	}
	for _, p := range e.prompts {
		s.AddPrompt(p, m.getPrompt)
	}
	for _, r := range e.resources {
		s.AddResource(r, m.readResource)
	}
	for _, t := range e.templates {
		s.AddResourceTemplate(t, m.readResource)
	}
	return nil
}
