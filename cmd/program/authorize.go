package program

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/url"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/urfave/cli/v3"
	"go.yaml.in/yaml/v3"

	"github.com/mcpsaga/mcpsaga/auth"
	"github.com/mcpsaga/mcpsaga/cmd/program/internal/keyfile"
	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server"
)

// authFlags say who may call a server, and what.
func (p *program) authFlags() []cli.Flag {
	return inCategory("Authorization", []cli.Flag{
		p.stringFlag("auth-issuer", "the `URL` of the authorization server whose access tokens are taken; its metadata says where its keys are", ""),
		p.stringFlag("auth-resource", "the `URL` of the endpoint as clients know it (default: "+server.Endpoint+" of --public-url, or of --addr on this machine)", ""),
		p.listFlag("auth-audience", "an `AUDIENCE` of which tokens must name one (default: --auth-resource)"),
		p.listFlag("auth-scope", "a `SCOPE` that every request takes"),
		p.listFlag("auth-tool-scope", "a scope that a tool takes besides, as `TOOL=SCOPE`"),
		p.listFlag("auth-first-scope", "a `SCOPE` that clients ask for first (default: --auth-scope)"),
		p.stringFlag("auth-scope-prefix", "a `TEXT` before scopes where clients ask for them, and not in tokens, such as api://tools/", ""),
		p.stringFlag("auth-subject", "the `CLAIM` that names the user", "sub"),
		p.listFlag("auth-claim", "a `CLAIM` that tools are to know"),
		p.boolFlag("auth-machines", "take tokens that name no user for their client's"),
		p.stringFlag("auth-dpop", "whether access tokens may be bound to a key of their client's (DPoP): `no`, allowed or required", "no"),
		p.stringFlag("auth-keys-url", "the `URL` of the keys of --auth-issuer, if its metadata does not say it", ""),
		p.stringFlag("auth-introspect-id", "ask --auth-issuer about tokens that are no JSON Web Tokens, as the client of this `ID`", ""),
		p.stringFlag("auth-introspect-secret", "the `FILE` with that client's secret, or env:VARIABLE", ""),
		p.stringFlag("auth-introspect-url", "the `URL` to ask at, if the metadata of --auth-issuer does not say it", ""),
		p.stringFlag("auth-api-keys", "the YAML `FILE` with the hashes of machines' keys; it is loaded again when it changes, and on SIGHUP", ""),
		p.stringFlag("auth-proxy-user", "the `HEADER` in which a --trusted-proxy names the user whom it has signed in", ""),
		p.stringFlag("auth-proxy-scopes", "the `HEADER` in which it names their scopes", ""),
	})
}

// ofTokens are the flags about access tokens alone.
var ofTokens = []string{"auth-audience", "auth-claim", "auth-machines", "auth-dpop", "auth-keys-url", "auth-introspect-id", "auth-introspect-secret", "auth-introspect-url"}

// checkAuth refuses variables and entries of the file that are empty, which say who may call if what fills them is missing, and
// passwords in URLs.
func (p *program) checkAuth(c *cli.Command) error {
	for _, f := range p.authFlags() {
		name := f.Names()[0]
		s := p.config.settings[name]
		if value, isSet := os.LookupEnv(s.variable); isSet && value == "" && s.from != "" { // the command line does not say it
			return p.usage(c, "the environment variable %s is empty: unset it, or set it to what --%s is to be", s.variable, name)
		}
		if text, isText := c.Value(name).(string); s.inFile && isText && text == "" {
			return p.usage(c, "%s: %s is empty: leave it out, or set it to what --%[2]s is to be", s.from, name)
		}
	}
	for _, name := range []string{"auth-issuer", "auth-resource", "auth-keys-url", "auth-introspect-url"} {
		if u, err := url.Parse(c.String(name)); err != nil || u.User != nil {
			return p.usage(c, "--%s is no URL of a server, such as https://login.example.com", name)
		}
	}
	return nil
}

// authorize has the server of p ask who calls, if flags say so; nil if they do not.
func (p *program) authorize(c *cli.Command, l net.Listener) (*authorization, error) {
	if err := p.checkAuth(c); err != nil {
		return nil, err
	}
	ways := []string{"auth-issuer", "auth-api-keys", "auth-proxy-user"}
	set := func(name string) bool { return c.String(name) != "" }
	none := !slices.ContainsFunc(ways, set)
	for _, f := range p.authFlags() {
		name := f.Names()[0]
		switch value := fmt.Sprint(c.Value(name)); {
		case !c.IsSet(name), name == "auth-subject", value == "no", value == "false":
		case none:
			return nil, p.usage(c, "--%s needs a way to find out who calls: --auth-issuer, --auth-api-keys or --auth-proxy-user", name)
		case !set("auth-issuer") && slices.Contains(ofTokens, name):
			return nil, p.usage(c, "--%s is about access tokens, and needs the --auth-issuer of these", name)
		case !set("auth-proxy-user") && name == "auth-proxy-scopes":
			return nil, p.usage(c, "--%s needs --auth-proxy-user", name)
		}
	}
	if none {
		return nil, nil
	}
	if p.server.Authenticate != nil || p.server.Permit != nil {
		return nil, p.usage(c, "this program finds out by itself who may call; leave out the flags --auth-…")
	}
	a := &authorization{program: p, path: c.String("auth-api-keys")}
	o := auth.Options{Resource: p.resource(c, l), Scopes: c.StringSlice("auth-scope"), ScopePrefix: c.String("auth-scope-prefix"), Name: p.name}
	if o.Resource == "" {
		return nil, p.usage(c, "--auth-resource is needed where other machines may use the server: the URL of the endpoint as clients know it, such as https://tools.example.com%s", server.Endpoint)
	}
	switch bound := c.String("auth-dpop"); bound {
	case "no":
	case "allowed", "required":
		o.DPoP, o.RequireDPoP = true, bound == "required"
	default:
		return nil, p.usage(c, "--auth-dpop is no, allowed or required, not %q", bound)
	}
	if first := c.StringSlice("auth-first-scope"); len(first) > 0 {
		o.FirstScopes = first
	}
	var err error
	if o.Tools, err = p.toolScopes(c); err != nil {
		return nil, err
	}
	if a.path != "" {
		if a.keys, err = auth.NewAPIKeys(""); err == nil {
			_, err = a.load()
		}
		if err != nil {
			return nil, failed(fmt.Errorf("--auth-api-keys: %w", err))
		}
		o.Methods = append(o.Methods, a.keys)
	}
	if err = p.proxyMethod(c, &o); err == nil {
		err = p.tokenMethods(c, &o)
	}
	if err == nil {
		a.guard, err = auth.New(o)
	}
	if err == nil {
		err = a.guard.Secure(&p.server)
	}
	if err != nil && !errors.As(err, new(*exitError)) {
		err = p.usage(c, "%s", authInFlags.Replace(err.Error()))
	}
	return a, err
}

// authInFlags names what package auth says as this program has it.
var authInFlags = strings.NewReplacer("auth: ", "--auth-…: ", "Options.Resource", "--auth-resource", "JWT.Issuer", "--auth-issuer", "JWT.KeysURL", "--auth-keys-url", "Proxy.Networks, Proxy.Issuer and Proxy.Subject", "--auth-proxy-user and --trusted-proxy")

// resource is the URL of the endpoint as clients know it; empty if that cannot be known.
func (p *program) resource(c *cli.Command, l net.Listener) string {
	if given := c.String("auth-resource"); given != "" {
		return given
	}
	if base := cmp.Or(strings.TrimSuffix(c.String("public-url"), "/"), p.ownURL(l)); base != "" {
		return base + server.Endpoint
	}
	return ""
}

func (p *program) toolScopes(c *cli.Command) (map[string][]string, error) {
	var known []string
	for _, d := range p.server.Tools {
		if t, err := d.Compile(); err == nil && t.Kind == engine.KindTool { // server.New says what is wrong with others
			known = append(known, t.Name)
		}
	}
	scopes := map[string][]string{}
	for _, text := range c.StringSlice("auth-tool-scope") {
		tool, scope, ok := strings.Cut(text, "=")
		if !ok || tool == "" || scope == "" {
			return nil, p.usage(c, "--auth-tool-scope %s: a tool and a scope are wanted, such as order=orders:write", text)
		}
		if !slices.Contains(known, tool) {
			return nil, p.usage(c, "--auth-tool-scope %s: there is no tool %q%s", text, tool, didYouMean(tool, "", known))
		}
		scopes[tool] = append(scopes[tool], scope)
	}
	return scopes, nil
}

func (p *program) proxyMethod(c *cli.Command, o *auth.Options) error {
	if c.String("auth-proxy-user") == "" {
		return nil
	}
	m, err := auth.NewProxy(auth.Proxy{
		Networks: c.StringSlice("trusted-proxy"), Issuer: "proxy", Subject: c.String("auth-proxy-user"), Scopes: c.String("auth-proxy-scopes"),
	})
	o.Methods = append(o.Methods, m)
	return err
}

func (p *program) tokenMethods(c *cli.Command, o *auth.Options) error {
	issuer := c.String("auth-issuer")
	if issuer == "" {
		return nil
	}
	o.AuthorizationServers = []string{issuer}
	mapping := auth.Mapping{
		Audiences: c.StringSlice("auth-audience"), Subject: c.String("auth-subject"), Claims: c.StringSlice("auth-claim"), Machines: c.Bool("auth-machines"),
	}
	if len(mapping.Audiences) == 0 {
		mapping.Audiences = []string{o.Resource}
	}
	limits := auth.Checking{CallerKey: p.server.CallerKey}
	m, err := auth.NewJWT(auth.JWT{Issuer: issuer, KeysURL: c.String("auth-keys-url"), Mapping: mapping, Checking: limits})
	if err != nil {
		return err
	}
	o.Methods = append(o.Methods, m)
	if c.String("auth-introspect-id") == "" {
		if c.String("auth-introspect-secret")+c.String("auth-introspect-url") != "" {
			return p.usage(c, "--auth-introspect-id is needed as well: the client as which --auth-issuer is asked")
		}
		return nil
	}
	secret, err := secretOf(c.String("auth-introspect-secret"))
	if err != nil {
		return failed(fmt.Errorf("--auth-introspect-secret: %w", err))
	}
	m, err = auth.NewIntrospection(auth.Introspection{
		Issuer: issuer, URL: c.String("auth-introspect-url"), ClientID: c.String("auth-introspect-id"), ClientSecret: secret, Mapping: mapping, Checking: limits,
	})
	o.Methods = append(o.Methods, m)
	return err
}

// secretOf reads the secret that a flag names. Its error does not have the name: it may be the secret, by mistake.
func secretOf(name string) (string, error) {
	variable, inVariable := strings.CutPrefix(name, inEnvironment)
	if inVariable {
		secret := os.Getenv(variable)
		if secret == "" {
			return "", errors.New("the environment variable that it names is not set")
		}
		return secret, os.Unsetenv(variable) // processes that tools start need not have it
	}
	raw, err := os.ReadFile(name)
	secret := strings.TrimSpace(string(raw))
	if err != nil || secret == "" {
		return "", errors.New("it must name a file with the secret, or env: and the variable that has it, and the file cannot be read or is empty")
	}
	return secret, nil
}

// shownSecret is what may be shown of the name of a secret: not what may be the secret itself.
func shownSecret(name string) string {
	if _, err := os.Stat(name); err == nil || strings.HasPrefix(name, inEnvironment) {
		return name
	}
	return ""
}

// authorization is who may call a server, as flags have said it.
type authorization struct {
	program *program
	guard   *auth.Guard
	keys    *auth.APIKeys // nil if there are none
	path    string        // of the file with them
	raw     []byte        // what it had
}

// apiKey is an entry of the file of --auth-api-keys.
type apiKey struct {
	Hash    string
	Subject string
	Scopes  []string
	Expires time.Time
}

// load loads the API keys if the file is another than before, and returns what it has.
func (a *authorization) load() (raw []byte, err error) {
	raw, err = os.ReadFile(a.path)
	if err != nil || a.raw != nil && bytes.Equal(raw, a.raw) {
		return raw, err
	}
	d := yaml.NewDecoder(bytes.NewReader(raw))
	d.KnownFields(true)
	var entries []apiKey
	switch err := d.Decode(&entries); {
	case err == nil && entries == nil, errors.Is(err, io.EOF): // as it is for a moment while it is written, or for want of room
		return nil, fmt.Errorf("%s is empty: for no keys write []", a.path)
	case err != nil:
		return nil, fmt.Errorf("%s is no list of keys, each with a hash, a subject, perhaps scopes and a date when it expires: %w", a.path, err)
	case !errors.Is(d.Decode(new(yaml.Node)), io.EOF):
		return nil, fmt.Errorf("%s has more than one document", a.path)
	}
	list := make([]auth.APIKey, 0, len(entries))
	for _, e := range entries {
		list = append(list, auth.APIKey{Hash: e.Hash, Expires: e.Expires, Caller: saga.Caller{Subject: e.Subject, Scopes: e.Scopes}})
	}
	if err := a.keys.Set(list...); err != nil {
		return nil, fmt.Errorf("%s: %w", a.path, err)
	}
	a.raw = raw
	return raw, nil
}

// begin says what is in force, asks the issuer for what tokens are checked by, and loads the API keys again when they change,
// until ctx ends.
func (a *authorization) begin(ctx context.Context) {
	if a == nil {
		return
	}
	log := a.program.server.Logger
	go func() {
		if err := a.guard.Probe(ctx); err != nil && ctx.Err() == nil {
			log.WarnContext(ctx, "the authorization server cannot be asked; until it can, requests with tokens get the status 503", "error", err)
		}
	}()
	if a.keys == nil {
		return
	}
	hangup := make(chan os.Signal, 1)
	signal.Notify(hangup, syscall.SIGHUP)
	watcher := keyfile.Watcher[[]byte]{
		What: "file of API keys", Path: a.path, Load: a.load, Same: bytes.Equal, Shown: func([]byte) slog.Attr { return slog.String("path", a.path) },
		Last: a.raw, Now: hangup, Set: func([]byte) {}, Failed: func() {}, Interval: a.program.lookAtKeys, Log: log,
	}
	go func() {
		defer signal.Stop(hangup)
		watcher.Run(ctx)
	}()
}
