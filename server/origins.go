package server

import (
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/mcpsaga/mcpsaga/server/internal/wire"
	"github.com/rs/cors"
)

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
	case name == "" || strings.ContainsAny(name, ":/*?#@ ") || !isASCII(name):
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
	case strings.Contains(u.Host, "*"):
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

// crossOrigin lets pages of allowed origins send requests and read the answers,
// those of refusals too. What the page must not send, serve has to refuse: the
// library only withholds the headers by which a browser shows answers to a page.
//
// Credentials stay forbidden: a page can send what it knows itself, such as an
// access token, but not what the browser keeps for this server. That is also why
// any header may be sent: tools have parameters in headers (Mcp-Param-), and
// [Options.Authenticate] may look at any.
func crossOrigin(g *guard, serve http.HandlerFunc) http.Handler {
	return cors.New(cors.Options{
		AllowOriginVaryRequestFunc: func(r *http.Request, _ string) (bool, []string) { return g.originAllowed(r), nil },
		AllowedMethods:             []string{http.MethodPost, http.MethodGet, http.MethodDelete},
		AllowedHeaders:             []string{"*"},
		ExposedHeaders:             []string{wire.SessionHeader, "WWW-Authenticate", "Retry-After"},
		MaxAge:                     preflightAge,
		OptionsPassthrough:         true, // serve refuses foreign hosts
	}).Handler(serve)
}

// isPreflight reports whether a browser asks on behalf of a page whether that may
// send a request.
func isPreflight(r *http.Request) bool {
	return r.Method == http.MethodOptions && r.Header.Get("Origin") != "" && r.Header.Get("Access-Control-Request-Method") != ""
}
