package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mcpsaga/mcpsaga/codec"
	"github.com/mcpsaga/mcpsaga/internal/buildinfo"
	"github.com/mcpsaga/mcpsaga/internal/durable"
	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/internal/tasks"
	"github.com/mcpsaga/mcpsaga/internal/tokens"
	"github.com/mcpsaga/mcpsaga/internal/turns"
	"github.com/mcpsaga/mcpsaga/ledger"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server/internal/apps"
	"github.com/mcpsaga/mcpsaga/server/internal/dialect"
	"github.com/mcpsaga/mcpsaga/steps"
)

// Options configure a [Server]. Only Keys is required. What is zero has its default, and so
// have numbers and times that are negative, unless their comment says what that means or
// [New] refuses them. No time may be longer than ten years.
type Options struct {
	// Tools are the tools, prompts and resources that the server offers, in the
	// order in which they are listed.
	Tools []saga.Definition
	// Keys seal the tokens. All replicas of a deployment need the same keyset.
	Keys *codec.Keyset
	// Audience names the deployment. A token of one audience is refused by
	// servers of another, even with the same keys. Default: empty.
	Audience string
	// TokenTTL is how long a client may take to answer, per turn. Default 10
	// minutes; less than a second is refused.
	TokenTTL time.Duration
	// UndoGrace is how long after a token has expired it still has what its saga did
	// undone, if its client comes back after all. Later it is refused like any
	// other. Default 30 days; negative means that expired tokens undo nothing.
	UndoGrace time.Duration
	// TurnTimeout bounds the work of one turn; undoing may take a minute more. A tool that ignores
	// its context is left alone a second later, and the turn ends without it. Default 1 minute.
	TurnTimeout time.Duration
	// Ledger is where the server remembers which turns were taken, how sagas ended, and what
	// is to be undone if a client never comes back: for tools that declare effects, or
	// demand it. All servers with the same keys and audience must share it. The server does
	// not close it. Nil means that nothing is remembered, and that New refuses tools which
	// demand single use.
	Ledger ledger.Store
	// Workers is how many tasks this server works on at once, of tools whose Tasks allow any.
	// Default 16; negative means that it works on none, and leaves tasks, and what clients have abandoned, to
	// other servers with the same Ledger. Without a Ledger there are no tasks, and New refuses tools that demand
	// them.
	Workers int
	// WorkersPerTool is how many of them may be tasks of one tool, by the tool's name; a tool
	// that is not in it has no limit of its own. At most half of the Workers are one principal's.
	WorkersPerTool map[string]int
	// Lease is for how long a turn or a task is left to the server that has taken it unless that
	// shows that it is alive, so how long it takes until others go on when one has died. The
	// shorter, the more often it is renewed, and the sooner a server loses what it is at when the
	// ledger is slow. Default 10 seconds; less than one is refused.
	Lease time.Duration
	// LedgerLimit is how much of a principal's the ledger remembers at once of each of three kinds: sagas under way that
	// clients drive, open calls of sessions, and other things until their time is over: what a session has set, say.
	// More is refused, over HTTP without a session with the status 429. What begins at once may exceed it a little. The
	// anonymous callers of one CallerKey have a quarter of it.
	// Default 100 000; negative means that there is no limit.
	LedgerLimit int
	// MaxBody is the largest message in bytes. Default 1 MiB.
	MaxBody int64
	// CallerRate is how many turns one caller may ask for: requests that may run a tool's code, prompts, resources and completions
	// included. ToolRates is how many of them may name a tool, by its name; New refuses names that no tool has. More is
	// refused before anything is done, over HTTP without a session with the status 429; the same request may be sent again, and
	// every answer says when. Callers whom CallerKey does not tell apart count as one. Each replica counts by itself, and
	// remembers the last 5 000 callers at least. Default: any rate.
	CallerRate Rate
	ToolRates  map[string]Rate
	// MaxTurns is how many such requests are worked on at once. One more waits for a second, and is refused then, over HTTP
	// without a session with the status 503. Half of the places are for all, and of the others a caller gets an eighth of
	// MaxTurns at most. A request that waits for its client, an event or a sleep has none, nor has what Workers are at. Default 2048.
	MaxTurns int
	// PageSize is how many entries a list method returns at once. Default 100.
	PageSize int

	// Name, Title and Version describe the server to clients. Default: "mcpsaga"
	// and the version of the main module.
	Name, Title, Version string
	// Instructions tell models how to use the server's tools.
	Instructions string
	// Skills offers a manual of each tool that asks, acts or may be a task, for models: as an Agent Skill (the extension
	// io.modelcontextprotocol/skills, SEP-2640), and as a resource with a URI such as skill://order-lunch/SKILL.md. Who may
	// use a tool, by Permit, may read its manual. New fails if two tools would have the same name there, or one over 64
	// characters.
	Skills bool

	// Hooks are called around requests, turns and effects, the first outermost.
	Hooks []Hooks
	// Observers watch requests, turns and effects, the first before the others, and before hooks.
	Observers []Observer

	// Sampler is a model of the server's own: it answers what tools ask of a model
	// when the client has none, within the turn that asks. Nil means that tools which
	// need a model cannot be used by such clients.
	Sampler func(context.Context, *steps.SampleRequest) (*steps.SampleResult, error)

	// Questions says how users are asked whose clients cannot ask them.
	Questions Questions

	// EventPath is a path, such as "/events", at which [Server.Handler] has the [Server.EventHandler] as well; empty is
	// none. It needs a Ledger. Who has a handle delivers there: what asks clients of MCP for credentials before they reach
	// this server must let that path through.
	EventPath string

	// Authenticate finds out who sends an HTTP request; nil means that no caller is
	// asked and everybody is anonymous, the zero [saga.Caller]. A token can be used only by the
	// caller that it was given to: the same issuer, subject and client, whatever the scopes and claims.
	// An error refuses the request: an [*AuthError] as it says, an [*Error] such as [TryAgain] as it is, any other
	// with the status 401. Its text goes to the log, not to the client.
	Authenticate func(*http.Request) (saga.Caller, error)
	// Permit says whether a caller may use what is called so: a kind ("tool", "prompt" or "resource") and a name, as in
	// [TurnInfo]. nil is that all may use all. It returns nil, [ErrHidden] for what is not for the caller at all, so that
	// lists are without it and calls of it fail as if it were not there; an [*AuthError] for what takes another
	// permission, such as a scope to be asked for: lists have it; or another error, such as [TryAgain], if it cannot say.
	//
	// It is called for each entry of a list, and before each turn: also for those that the server takes by itself, with the
	// caller as it was when the last answer came. If such a turn is refused the saga ends, and what it did is undone; while
	// it cannot be said, the turn is tried again, with growing pauses. Permit is called by many goroutines at once, in
	// requests' own time, so it should not be slow. What was begun can be cancelled in any case, and what is only undone is
	// undone.
	Permit func(ctx context.Context, who saga.Caller, kind, name string) error
	// Wrap, if it is not nil, returns what [Server.Handler] does, of what that would return: for more paths, or around all.
	Wrap func(http.Handler) http.Handler
	// AllowedHosts are the host names, without port, that requests may be for
	// (protection against DNS rebinding). Names of the loopback interface are
	// always allowed; "*" allows any.
	AllowedHosts []string
	// AllowedOrigins are the web origins, such as "https://app.example.com",
	// whose pages may send requests, and read the answers (CORS). Those on the
	// loopback interface are always allowed. "*" allows any, and needs
	// Authenticate, or a public name in AllowedHosts: otherwise any page could use
	// a server that only its reader can reach. Cookies are never asked for.
	AllowedOrigins []string

	// SessionTTL is how long a session of a client that speaks MCP before 2026-07-28 over
	// HTTP lasts, however much it is used: then the client begins a new one. Its id is a
	// token, which any replica with the same keys accepts, and which cannot be extended.
	// Default 24 hours.
	SessionTTL time.Duration
	// SessionIdle is how long the server keeps in memory what such a session left there when
	// it was used last: subscriptions, its log level, responses that the client may have
	// missed. The session itself continues. Default 30 minutes.
	SessionIdle time.Duration
	// MaxSessions is how many such sessions may be in memory: those with streams or calls,
	// and those that left something there, of which the one unused for the longest gives
	// way. When all are in use, requests that need another one are refused with the status
	// 503. Default 10000. Twice as many calls may be under way in all of them together; more are
	// answered with an error. A call that waits for its client takes about 75 kB, and a stream
	// that belongs to no request about 37 kB.
	MaxSessions int
	// MaxSessionsPerPrincipal is how many of them one principal may have, or the anonymous callers
	// of one CallerKey. Twice as many of its calls may be under way. Default 100.
	MaxSessionsPerPrincipal int
	// MaxStreams is how many subscriptions of clients of MCP 2026-07-28 may be open
	// at once. Default 1024.
	MaxStreams int
	// MaxStreamsPerPrincipal is how many of them one principal may have open, or the
	// anonymous callers of one CallerKey. Default 64.
	MaxStreamsPerPrincipal int
	// CallerKey tells callers apart that are anonymous, for the limits per principal. An
	// address that it returns is also where a person has answered from whom a tool asks. Those with the empty key are not distinguished and share what
	// MaxSessions and MaxStreams leave. Default: the address that the connection comes
	// from (of IPv6 the first 64 bits), and empty if that is not a public one, as many
	// callers may be behind it. Behind a proxy use [ForwardedKey], or return
	// something else that the proxy reports, from a header that callers cannot set.
	CallerKey func(*http.Request) string

	// Logger gets what operators should know: why tokens were refused, failures
	// of tools with their cause. Default: [slog.Default].
	Logger *slog.Logger
	// Now is the clock. Default: [time.Now].
	Now func() time.Time

	// dialects are what is spoken. Default: those registered.
	dialects []registration
}

// Server serves tools over the transports of this package. It keeps nothing of
// a saga between two turns. It is safe for concurrent use.
//
// With a ledger, goroutines of the server's undo abandoned sagas and work on tasks. They begin
// with the first use of Serve, ServeStdio, Handler, Handle or Work, and end with Close, or when
// the ledger's store is closed.
type Server struct {
	opts   Options
	codec  *tokens.Codec
	log    *slog.Logger
	guard  *guard
	health health
	keeper *keeper // nil without a ledger
	skills skills  // empty without Options.Skills
	// keepAlive is how often an idle event stream shows that it is alive.
	keepAlive time.Duration
	// eventTimeout is how long a client may take to accept a message before the response,
	// which a tool that reports progress may be held up for.
	eventTimeout time.Duration
	// unflushed is for saying once that middleware cannot flush.
	unflushed sync.Once
	// working counts the requests that are worked on, but for those of sessions.
	working atomic.Int64

	pages   http.Handler // nil without any
	pagesAt *url.URL     // where they are

	host     *dialect.Host
	dialects []dialect.Dialect
	sessions dialect.Sessions // the dialect that has them
	drain    context.CancelCauseFunc
}

// longest is how long an option's time may be: tokens have no times after 2106, and sums of times overflow.
const longest = 10 * 365 * 24 * time.Hour

// New checks the options and the tools' definitions and returns a server. What is wrong with
// the definitions are [saga.DefinitionError]s, all of them joined.
func New(o Options) (*Server, error) {
	if err := o.complete(); err != nil {
		return nil, err
	}
	tools, err := engine.NewRegistry(o.Tools...)
	if err != nil {
		return nil, fmt.Errorf("server: %w", err)
	}
	var manuals skills
	if o.Skills {
		if tools, manuals, err = withSkills(o.Tools, tools); err != nil {
			return nil, fmt.Errorf("server: Options.Skills makes a resource of each tool's name in a-z 0-9 -: %w", err)
		}
	}
	c, err := tokens.New(o.Keys, tokens.Options{Audience: o.Audience, TTL: o.TokenTTL})
	if err != nil {
		return nil, fmt.Errorf("server: %w", err)
	}
	s := &Server{opts: o, codec: c, log: o.Logger, skills: manuals, keepAlive: keepAlive, eventTimeout: 10 * time.Second}
	if s.guard, err = newGuard(&o); err != nil {
		return nil, fmt.Errorf("server: %w", err)
	}
	config := turns.Config{
		Registry: tools, Codec: c, Log: o.Logger, Pages: strings.TrimSuffix(o.Questions.PageURL, "/"), Now: o.Now, Timeout: o.TurnTimeout, UndoGrace: o.UndoGrace, Model: o.Sampler,
	}
	config.ClientMay = func(q engine.Routing) bool {
		return !q.User || engine.BothRoutes(q.Allowed, o.Questions.Force).Has(steps.RouteClient)
	}
	if o.Permit != nil {
		config.Permit = s.permit
	}
	hooks := newHooks(&o, &config)
	s.host = &dialect.Host{
		Info: dialect.Implementation{Name: o.Name, Title: o.Title, Version: o.Version}, Instructions: o.Instructions,
		Questions: dialect.Questions{Force: o.Questions.Force, NoRelay: o.Questions.NoRelay, TrustedApps: o.Questions.TrustedApps},
		Tools:     tools, Hub: new(dialect.Hub), Log: o.Logger, Revisions: revisions(o.dialects),
		Limits: dialect.Limits{
			MaxBody: o.MaxBody, SessionTTL: o.SessionTTL, SessionIdle: o.SessionIdle,
			MaxSessions: o.MaxSessions, MaxSessionsPerPrincipal: o.MaxSessionsPerPrincipal,
			MaxStreams: o.MaxStreams, MaxStreamsPerPrincipal: o.MaxStreamsPerPrincipal,
		},
	}
	s.host.Large = dialect.NewLarge()
	if s.host.Gate, err = o.gate(tools); err != nil {
		return nil, err
	}
	s.host.Turns = turns.New(config)
	if o.Ledger == nil {
		if err := turns.NeedLedger(tools); err != nil {
			return nil, fmt.Errorf("server: %w", err)
		}
	} else {
		s.host.TakesKeys = true
		core, err := durable.New(durable.Config{
			Turns: s.host.Turns, Store: o.Ledger, Workers: o.Workers, PerTool: o.WorkersPerTool, Lease: o.Lease, MaxSagas: o.LedgerLimit,
		})
		if err != nil {
			return nil, fmt.Errorf("server: %w", err)
		}
		s.host.Core, s.host.Tasks, s.host.CallsOnly = core, core, !tasks.Offered(tools)
		s.host.Hub.Share(core, o.Logger)
		if err := apps.Offer(s.host); err != nil {
			return nil, fmt.Errorf("server: %w", err)
		}
		s.keeper = newKeeper(core, o.Logger, o.Now, s.host.Hub.Work, core.Work)
	}
	s.host.Draining, s.drain = context.WithCancelCause(context.Background())
	if err := errors.Join(s.addPages(), s.checkEventPath()); err != nil {
		return nil, err
	}
	if err := s.askOthers(); err != nil {
		return nil, fmt.Errorf("server: %w", err)
	}
	if hooks != nil {
		hooks.admit, s.host.Around = s.host.Admit, hooks.exchange
	}
	if s.host.Catalogue, err = dialect.NewCatalogue(s.host, o.PageSize); err != nil {
		return nil, fmt.Errorf("server: %w", err)
	}
	s.host.Catalogue.Lists[dialect.MethodSkills] = manuals.entries
	for _, r := range o.dialects {
		d, err := r.new(s.host)
		if err != nil {
			return nil, fmt.Errorf("server: %w", err)
		}
		if d == nil {
			continue
		}
		s.dialects = append(s.dialects, d)
		if d, ok := d.(dialect.Sessions); ok {
			s.sessions = d
		}
	}
	return s, nil
}

// complete checks the options as far as they can be without others, and puts defaults in the place of what is zero.
func (o *Options) complete() error {
	if o.Keys == nil {
		return errors.New("server: Options.Keys is required; make a keyset with codec.NewKeyset or load one")
	}
	if o.Lease = cmp.Or(o.Lease, 10*time.Second); o.Lease < time.Second {
		return fmt.Errorf("server: Options.Lease is %v; it must be a second at least, or servers lose what they are at whenever the ledger is slow", o.Lease)
	}
	if o.Questions.Force.String() == "" {
		return errors.New("server: Options.Questions.Force has none of the routes that there are")
	}
	for _, t := range []struct {
		name string
		time time.Duration
	}{{"TokenTTL", o.TokenTTL}, {"UndoGrace", o.UndoGrace}, {"TurnTimeout", o.TurnTimeout}, {"Lease", o.Lease}, {"SessionTTL", o.SessionTTL}, {"SessionIdle", o.SessionIdle}} {
		if t.time > longest {
			return fmt.Errorf("server: Options.%s is %v; the longest time is %v, which is ten years", t.name, t.time, longest)
		}
	}
	o.UndoGrace = cmp.Or(o.UndoGrace, turns.DefaultUndoGrace)
	o.TurnTimeout = positive(o.TurnTimeout, time.Minute)
	o.MaxBody = positive(o.MaxBody, 1<<20)
	o.MaxTurns = positive(o.MaxTurns, 2048)
	o.PageSize = positive(o.PageSize, 100)
	o.SessionTTL = positive(o.SessionTTL, 24*time.Hour)
	o.SessionIdle = positive(o.SessionIdle, 30*time.Minute)
	o.MaxSessions = positive(o.MaxSessions, 10_000)
	o.MaxSessionsPerPrincipal = positive(o.MaxSessionsPerPrincipal, 100)
	o.MaxStreams = positive(o.MaxStreams, 1024)
	o.MaxStreamsPerPrincipal = positive(o.MaxStreamsPerPrincipal, 64)
	o.Logger = cmp.Or(o.Logger, slog.Default())
	o.Name = cmp.Or(o.Name, "mcpsaga")
	o.Version = cmp.Or(o.Version, buildinfo.Version())
	if o.CallerKey == nil {
		o.CallerKey = publicAddress
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.dialects == nil {
		o.dialects = registered
	}
	return nil
}

// positive is an option, or its default if it is not positive.
func positive[N int | int64 | time.Duration](option, otherwise N) N {
	if option <= 0 {
		return otherwise
	}
	return option
}

// ToolsChanged tells subscribed clients that the list of tools is to be read again.
func (s *Server) ToolsChanged() { s.host.Hub.Publish(dialect.Event{Method: dialect.ToolsChanged}) }

// PromptsChanged tells subscribed clients that the list of prompts is to be read again.
func (s *Server) PromptsChanged() { s.host.Hub.Publish(dialect.Event{Method: dialect.PromptsChanged}) }

// ResourcesChanged tells subscribed clients that the list of resources is to be read again.
func (s *Server) ResourcesChanged() {
	s.host.Hub.Publish(dialect.Event{Method: dialect.ResourcesChanged})
}

// ResourceUpdated tells clients that subscribed to the URI that the resource is to be read again.
func (s *Server) ResourceUpdated(uri string) {
	s.host.Hub.Publish(dialect.Event{Method: dialect.ResourceUpdated, URI: uri})
}

// CloseStreams ends the subscriptions of all clients, now and from now on, each
// with a proper goodbye, and the wait for answers of clients that have sessions or
// come through [Server.Handle]. [Server.Serve] does so when it stops; an
// http.Server of your own does so with RegisterOnShutdown(s.CloseStreams), as its
// Shutdown waits for streams that never end by themselves.
func (s *Server) CloseStreams() {
	s.drain(dialect.ErrStopping)
	s.sessions.Drain()
}

// Close ends all that clients have open, with their sessions and the turns under
// way in these, and the worker of the ledger, and waits a few seconds for what they undo.
// [Server.Serve] does so in the end.
func (s *Server) Close() {
	s.CloseStreams()
	ctx, cancel := context.WithTimeout(context.Background(), closeGrace)
	defer cancel()
	s.sessions.Close(ctx)
	s.keeper.close()
}
