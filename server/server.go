package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"time"

	"github.com/mcpsaga/mcpsaga/codec"
	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/internal/tokens"
	"github.com/mcpsaga/mcpsaga/internal/turns"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server/internal/dialect"
	"github.com/mcpsaga/mcpsaga/server/internal/wire"
	"github.com/mcpsaga/mcpsaga/steps"
)

// Options configure a [Server]. Only Keys is required.
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
	// minutes.
	TokenTTL time.Duration
	// UndoGrace is how long after a token has expired it still has what its saga did
	// undone, if its client comes back after all. Later it is refused like any
	// other. Default 30 days; negative means that expired tokens undo nothing.
	UndoGrace time.Duration
	// TurnTimeout bounds the work of one turn; undoing may take [engine.UndoTime] more.
	// Default 1 minute.
	TurnTimeout time.Duration
	// MaxBody is the largest message in bytes. Default 1 MiB.
	MaxBody int64
	// PageSize is how many entries a list method returns at once. Default 100.
	PageSize int

	// Name, Title and Version describe the server to clients. Default: "mcpsaga"
	// and the version of the main module.
	Name, Title, Version string
	// Instructions tell models how to use the server's tools.
	Instructions string

	// Hooks are called around requests, turns and effects, the first outermost.
	Hooks []Hooks

	// Sampler is a model of the server's own: it answers what tools ask of a model
	// when the client has none. Nil means that tools which need a model cannot be
	// used by such clients.
	Sampler Sampler

	// Authenticate finds out who sends an HTTP request; nil means that nobody is
	// asked and everybody is [Anonymous]. A token can be used only by the
	// principal that it was given to. An error refuses the request with the status 401;
	// its text goes to the log, not to the client.
	Authenticate func(*http.Request) (Principal, error)
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

	// SessionIdle is how long a session of a client that speaks MCP before
	// 2026-07-28 over HTTP may be unused before it ends. Default 30 minutes.
	SessionIdle time.Duration
	// MaxSessions is how many such sessions there may be. Default 10000.
	MaxSessions int
	// MaxSessionsPerPrincipal is how many of them one principal may have, or the
	// [Anonymous] callers of one CallerKey. Above, the one unused for the longest
	// ends. Default 100.
	MaxSessionsPerPrincipal int
	// MaxStreams is how many subscriptions of clients of MCP 2026-07-28 may be open
	// at once. Default 1024.
	MaxStreams int
	// MaxStreamsPerPrincipal is how many of them one principal may have open, or the
	// [Anonymous] callers of one CallerKey. Default 64.
	MaxStreamsPerPrincipal int
	// CallerKey tells callers apart that are [Anonymous], for the limits per principal
	// and nothing else. Those with the empty key are not told apart and share what
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

// Sampler is a model of the server's own. It answers the sampling steps that a
// client cannot, within the turn that asked for them.
type Sampler func(context.Context, *steps.SampleRequest) (*steps.SampleResult, error)

// Server serves tools over the transports of this package. It keeps nothing of
// a saga between two turns. It is safe for concurrent use.
type Server struct {
	opts    Options
	codec   *tokens.Codec
	hooks   *hooks // nil if there are none
	log     *slog.Logger
	guard   *guard
	health  health
	buffers wire.BufferPool
	// keepAlive is how often an idle event stream shows that it is alive.
	keepAlive time.Duration

	host     *dialect.Host
	dialects []dialect.Dialect
	sessions []dialect.Sessions // those of the dialects that have them
}

// New checks the options and the tools' definitions and returns a server.
func New(o Options) (*Server, error) {
	if o.Keys == nil {
		return nil, errors.New("server: Options.Keys is required; make a keyset with codec.NewKeyset or load one")
	}
	if o.UndoGrace == 0 {
		o.UndoGrace = turns.DefaultUndoGrace
	}
	if o.TurnTimeout <= 0 {
		o.TurnTimeout = time.Minute
	}
	if o.MaxBody <= 0 {
		o.MaxBody = 1 << 20
	}
	if o.PageSize <= 0 {
		o.PageSize = 100
	}
	if o.SessionIdle <= 0 {
		o.SessionIdle = 30 * time.Minute
	}
	if o.MaxSessions <= 0 {
		o.MaxSessions = 10_000
	}
	if o.MaxSessionsPerPrincipal <= 0 {
		o.MaxSessionsPerPrincipal = 100
	}
	if o.MaxStreams <= 0 {
		o.MaxStreams = 1024
	}
	if o.MaxStreamsPerPrincipal <= 0 {
		o.MaxStreamsPerPrincipal = 64
	}
	if o.CallerKey == nil {
		o.CallerKey = publicAddress
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Name == "" {
		o.Name = "mcpsaga"
	}
	if o.Version == "" {
		o.Version = moduleVersion()
	}
	if o.dialects == nil {
		o.dialects = registered
	}
	tools, err := engine.NewRegistry(o.Tools...)
	if err != nil {
		return nil, fmt.Errorf("server: %w", err)
	}
	c, err := tokens.New(o.Keys, tokens.Options{Audience: o.Audience, TTL: o.TokenTTL})
	if err != nil {
		return nil, fmt.Errorf("server: %w", err)
	}
	s := &Server{opts: o, codec: c, log: o.Logger, keepAlive: keepAlive}
	if s.guard, err = newGuard(&o); err != nil {
		return nil, fmt.Errorf("server: %w", err)
	}
	config := turns.Config{
		Registry: tools, Codec: c, Log: o.Logger, Now: o.Now, Timeout: o.TurnTimeout, UndoGrace: o.UndoGrace, Model: turns.Model(o.Sampler),
	}
	s.hooks = newHooks(o.Hooks, o.Logger)
	s.hooks.configure(&config)
	s.host = &dialect.Host{
		Info: dialect.Implementation{Name: o.Name, Title: o.Title, Version: o.Version}, Instructions: o.Instructions,
		Tools: tools, Hub: new(dialect.Hub), Log: o.Logger, Revisions: revisions(o.dialects),
		Turns: turns.New(config),
		Limits: dialect.Limits{
			MaxBody: o.MaxBody, SessionIdle: o.SessionIdle, MaxSessions: o.MaxSessions, MaxSessionsPerPrincipal: o.MaxSessionsPerPrincipal,
			MaxStreams: o.MaxStreams, MaxStreamsPerPrincipal: o.MaxStreamsPerPrincipal,
		},
	}
	if s.hooks != nil {
		s.host.Around = s.hooks.exchange
	}
	if s.host.Catalogue, err = dialect.NewCatalogue(tools, o.PageSize); err != nil {
		return nil, fmt.Errorf("server: %w", err)
	}
	for _, r := range o.dialects {
		d, err := r.new(s.host)
		if err != nil {
			return nil, fmt.Errorf("server: %w", err)
		}
		s.dialects = append(s.dialects, d)
		if d, ok := d.(dialect.Sessions); ok {
			s.sessions = append(s.sessions, d)
		}
	}
	return s, nil
}

// SetKeys replaces the keyset, for a rotation without a restart. Turns under
// way end with the keyset they began with. Tell [Server.KeysFailed] of keysets that
// cannot be loaded.
func (s *Server) SetKeys(k *codec.Keyset) {
	s.codec.SetKeyset(k)
	s.health.stale.Store(nil)
}

func moduleVersion() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "(devel)"
}
