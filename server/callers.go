package server

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/rs/cors"

	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server/internal/wire"
)

// guard refuses requests that a web page made a browser send: a foreign Origin,
// or a Host that is not ours (DNS rebinding). MCP demands the check of Origin
// (basic/transports/streamable-http, security).
type guard struct {
	// hosts and origins are as browsers write them; "*" among them is any.
	hosts, origins []string
}

// refuse returns why a request is not served, or "". It names what is not allowed:
// its sender knows it already, and an operator looks for it.
func (g *guard) refuse(r *http.Request) string {
	if _, ok := g.hostAllowed(r.Host); !ok {
		return "host not allowed: " + shown(r.Host) + " is no name of this server. Add it to AllowedHosts (--allow-host on the command line), " +
			"or let the proxy pass on the Host that the client sent"
	}
	if ok, _ := g.originAllowed(r, ""); !ok {
		return "origin not allowed: add " + shown(strings.Join(r.Header.Values("Origin"), " ")) +
			" to AllowedOrigins (--allow-origin on the command line) if its pages may use this server"
	}
	return ""
}

// hostAllowed reports whether a Host header may name this server, and which name it has,
// without the port and brackets.
func (g *guard) hostAllowed(host string) (name string, ok bool) {
	if strings.Contains(host, ":") { // else there is no port
		if h, _, err := net.SplitHostPort(host); err == nil {
			host = h
		}
	}
	name = strings.ToLower(strings.Trim(host, "[]"))
	return name, isLoopback(name) || slices.Contains(g.hosts, "*") || slices.Contains(g.hosts, name)
}

// originAllowed reports whether a request may come from where it says that it
// comes from, in the form that package cors has. Only pages say so.
func (g *guard) originAllowed(r *http.Request, _ string) (ok bool, vary []string) {
	values := r.Header.Values("Origin")
	if len(values) != 1 {
		return len(values) == 0, nil
	}
	origin := strings.ToLower(values[0])
	if slices.Contains(g.origins, "*") || slices.Contains(g.origins, origin) {
		return true, nil
	}
	u, err := url.Parse(origin)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && isLoopback(u.Hostname()), nil
}

// informs reports whether a request may read what is of no use to strangers. Besides
// our names, addresses will do: probes ask for them, and no page can be served under
// an address that is not its server's (to rebind takes a name).
func (g *guard) informs(r *http.Request) bool {
	name, ours := g.hostAllowed(r.Host)
	_, err := netip.ParseAddr(name)
	ok, _ := g.originAllowed(r, "")
	return ok && (err == nil || ours)
}

func isLoopback(name string) bool {
	if name == "localhost" {
		return true
	}
	addr, err := netip.ParseAddr(name)
	return err == nil && addr.IsLoopback()
}

// maxShown is how much of a header is repeated, in bytes: as long as any host name.
const maxShown = 253

// shown is a header's value for people: quoted, and not longer than it need be.
func shown(value string) string { return strconv.QuoteToASCII(clip(value)) }

func clip(value string) string {
	if len(value) > maxShown {
		return value[:maxShown] + "…"
	}
	return value
}

// newGuard checks what is to be allowed: a name that no request can have is a
// mistake that would show much later, one that is too wide would never show.
func newGuard(o *Options) (*guard, error) {
	g := new(guard)
	for _, host := range o.AllowedHosts {
		name, err := allowedHost(host)
		if err != nil {
			return nil, fmt.Errorf("AllowedHosts has %q: %w", host, err)
		}
		g.hosts = append(g.hosts, name)
	}
	for _, origin := range o.AllowedOrigins {
		name, err := allowedOrigin(origin)
		if err != nil {
			return nil, fmt.Errorf("AllowedOrigins has %q: %w", origin, err)
		}
		g.origins = append(g.origins, name)
	}
	if slices.Contains(g.origins, "*") && o.Authenticate == nil && (len(g.hosts) == 0 || slices.Contains(g.hosts, "*")) {
		return nil, errors.New(`AllowedOrigins "*" lets every page that somebody on this machine or in its network opens use the tools: ` +
			"name the origins, or name the public host in AllowedHosts, or set Authenticate")
	}
	return g, nil
}

func allowedHost(host string) (string, error) {
	name := strings.ToLower(strings.Trim(host, "[]"))
	_, err := netip.ParseAddr(name)
	switch {
	case host == "*" || err == nil:
		return name, nil
	case name == "" || strings.ContainsAny(name, ":/*?#@, ") || !isASCII(name):
		return "", errors.New(`it must be a host name or address without scheme and port, such as "tools.example.com", or "*" for any`)
	}
	return name, nil
}

// allowedOrigin returns an origin as browsers send it (RFC 6454, section 6.2).
func allowedOrigin(origin string) (string, error) {
	if origin == "*" {
		return origin, nil
	}
	u, err := url.Parse(strings.ToLower(strings.TrimSuffix(origin, "/")))
	switch {
	case origin == "null":
		return "", errors.New("every page can have the origin null, in a frame of its own")
	case err != nil || u.Hostname() == "" || strings.HasSuffix(u.Host, ":") || u.Scheme+"://"+u.Host != u.String() || !isASCII(origin):
		return "", errors.New(`it must be scheme, host and port of a page's address and nothing else, such as "https://app.example.com", or "*" for any`)
	case strings.ContainsAny(u.Host, "*,"):
		return "", errors.New("patterns are not supported: list the origins, one by one")
	case u.Scheme == "http" && u.Port() == "80", u.Scheme == "https" && u.Port() == "443":
		u.Host = strings.TrimSuffix(u.Host, ":"+u.Port())
	}
	return u.Scheme + "://" + u.Host, nil
}

func isASCII(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r > '~' })
}

// preflightAge is for how many seconds browsers may remember that a page may send
// requests. The requests themselves are checked each time.
const preflightAge = 600

// crossOrigin is for pages of allowed origins to send requests and read the answers,
// those of refusals too. What the page must not send, the server has to refuse: the
// library only withholds the headers by which a browser shows answers to a page.
//
// Credentials stay forbidden: a page can send what it knows itself, such as an
// access token, but not what the browser keeps for this server. That is also why
// any header may be sent: tools have parameters in headers (Mcp-Param-), and
// [Options.Authenticate] may look at any.
func (g *guard) crossOrigin() *cors.Cors {
	return cors.New(cors.Options{
		AllowOriginVaryRequestFunc: g.originAllowed,
		AllowedMethods:             []string{http.MethodPost, http.MethodGet, http.MethodDelete},
		AllowedHeaders:             []string{"*"},
		ExposedHeaders:             []string{wire.SessionHeader, "WWW-Authenticate", "Retry-After"},
		MaxAge:                     preflightAge,
		OptionsPassthrough:         true, // foreign hosts are to be refused
	})
}

// account is whose a request is that has a principal, or none; see [dialect.Exchange.Account].
func (s *Server) account(r *http.Request, principal string) string {
	if principal != "" {
		return "principal " + principal
	}
	if key := s.opts.CallerKey(r); key != "" {
		return "key " + key
	}
	return ""
}

// publicAddress is the default of [Options.CallerKey].
func publicAddress(r *http.Request) string {
	addr, ok := hopAddress(r.RemoteAddr) // without a port if middleware has set it
	if !ok || !addr.IsGlobalUnicast() || addr.IsPrivate() {
		return "" // perhaps a proxy's
	}
	return addressKey(addr)
}

// ForwardedKey returns an [Options.CallerKey] for a server behind proxies: the address
// that they report in X-Forwarded-For. Each proxy is an address or a network, such as
// 10.0.0.0/8.
//
// Callers can send that header as well, so it counts only on a connection that comes
// from one of these, and only the last address in it that is none of these: that is the
// one which a proxy has seen. What is left of it is a caller's own word. A connection
// from elsewhere is distinguished by its own address, as by default.
func ForwardedKey(proxies ...string) (func(*http.Request) string, error) {
	var networks []netip.Prefix
	for _, p := range proxies {
		network, err := netip.ParsePrefix(p)
		if err != nil {
			addr, e := netip.ParseAddr(p)
			if e != nil || addr.Zone() != "" {
				return nil, fmt.Errorf("server: %q is no address or network of a proxy, such as 10.0.0.7 or 10.0.0.0/8", p)
			}
			network = netip.PrefixFrom(addr.Unmap(), addr.Unmap().BitLen())
		}
		if addr := network.Addr(); addr.Is4In6() && network.Bits() >= 96 { // as addresses of connections are compared
			network = netip.PrefixFrom(addr.Unmap(), network.Bits()-96)
		}
		if network.Bits() == 0 {
			return nil, fmt.Errorf("server: the network %s trusts everybody, and every caller could take any address", p)
		}
		networks = append(networks, network.Masked())
	}
	trusted := func(a netip.Addr) bool {
		return slices.ContainsFunc(networks, func(n netip.Prefix) bool { return n.Contains(a) })
	}
	return func(r *http.Request) string {
		if from, ok := hopAddress(r.RemoteAddr); !ok || !trusted(from) {
			return publicAddress(r)
		}
		hops := strings.Split(strings.Join(r.Header.Values("X-Forwarded-For"), ","), ",")
		for _, hop := range slices.Backward(hops) {
			addr, ok := hopAddress(strings.TrimSpace(hop))
			if !ok {
				return "" // a proxy that does not know
			}
			if !trusted(addr) {
				return addressKey(addr)
			}
		}
		return ""
	}, nil
}

// hopAddress reads an address with or without a port.
func hopAddress(text string) (netip.Addr, bool) {
	both, err := netip.ParseAddrPort(text)
	addr := both.Addr()
	if err != nil {
		addr, err = netip.ParseAddr(strings.Trim(text, "[]"))
	}
	return addr.Unmap().WithZone(""), err == nil
}

// addressKey is what tells apart callers by their addresses: of IPv6 the network that
// one customer gets, to use all of it.
func addressKey(addr netip.Addr) string {
	if addr.Is6() {
		network, _ := addr.Prefix(64)
		return network.String()
	}
	return addr.String()
}

// AuthError is how [Options.Authenticate] and [Hooks] refuse a request for want of permission. Over HTTP it is the status of
// the response, before anything else of one.
type AuthError struct {
	// Status is 401 (who it is must be shown) or 403 (they may not do this). Any other counts as 401.
	Status int
	// Challenge is the header WWW-Authenticate, which tells a client what it needs (RFC 6750, section 3). It is for the client,
	// so what a verifier says does not belong in it. Empty is "Bearer" with 401, and no header with 403.
	Challenge string
	// Err is why, for the log. Clients do not see it.
	Err error
}

// Error implements error.
func (e *AuthError) Error() string {
	text := e.refusal().Message
	if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	return text
}

// Unwrap returns the cause.
func (e *AuthError) Unwrap() error { return e.Err }

// refusal is what the client gets.
func (e *AuthError) refusal() *wire.Error {
	rerr := wire.Refuse(http.StatusUnauthorized, wire.CodeInvalidRequest, "authentication is required")
	rerr.Challenge = cmp.Or(e.Challenge, "Bearer")
	if e.Status == http.StatusForbidden {
		rerr.Status, rerr.Message, rerr.Challenge = e.Status, "this needs a permission that the caller does not have", e.Challenge
	}
	return rerr
}

// refusalOf is what a client gets that is refused with an error of the program's; nil if that does not say.
func refusalOf(err error) *wire.Error {
	if auth, ok := errors.AsType[*AuthError](err); ok {
		return auth.refusal()
	}
	if public, ok := errors.AsType[*Error](err); ok {
		return wireErrorOf(public)
	}
	return nil
}

// callerOf finds out who sends a request; nil is an anonymous caller.
func (s *Server) callerOf(r *http.Request) (*engine.Caller, *wire.Error) {
	if s.opts.Authenticate == nil {
		return nil, nil
	}
	who, err := s.opts.Authenticate(r)
	if err != nil {
		s.log.InfoContext(r.Context(), "request refused", "reason", "not authenticated", "error", err)
		return nil, cmp.Or(refusalOf(err), new(AuthError).refusal())
	}
	c, err := checked(who)
	if err != nil {
		s.log.ErrorContext(r.Context(), "request refused", "reason", "not a caller", "error", err)
		return nil, wire.Refuse(http.StatusForbidden, wire.CodeInvalidRequest, "the server cannot take these credentials: tell its operator")
	}
	return c, nil
}

// checked returns a caller as it goes with a request; nil is an anonymous one.
func checked(who saga.Caller) (*engine.Caller, error) {
	c := engine.Caller(who)
	if err := c.Check(); err != nil || c.Anonymous() {
		return nil, err
	}
	return &c, nil
}
