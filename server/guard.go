package server

import (
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// guard refuses requests that a web page made a browser send: a foreign Origin,
// or a Host that is not ours (DNS rebinding). MCP demands the check of Origin
// (basic/transports/streamable-http, security).
type guard struct {
	// hosts and origins are as browsers write them; "*" among them is any.
	hosts, origins []string
}

// refuse returns why a request is not served, or "". It names what is not allowed:
// whoever sends it knows it already, and an operator looks for it.
func (g *guard) refuse(r *http.Request) string {
	if !g.hostAllowed(r.Host) {
		return "host not allowed: " + shown(r.Host) + " is no name of this server. Add it to AllowedHosts (saga serve --allow-host), " +
			"or let the proxy pass on the Host that the client sent"
	}
	if !g.originAllowed(r) {
		return "origin not allowed: add " + shown(strings.Join(r.Header.Values("Origin"), " ")) +
			" to AllowedOrigins (saga serve --allow-origin) if its pages may use this server"
	}
	return ""
}

func (g *guard) hostAllowed(host string) bool {
	name := hostname(host)
	return isLoopback(name) || slices.Contains(g.hosts, "*") || slices.Contains(g.hosts, name)
}

// originAllowed reports whether a request may come from where it says that it
// comes from. Only pages say so.
func (g *guard) originAllowed(r *http.Request) bool {
	values := r.Header.Values("Origin")
	if len(values) != 1 {
		return len(values) == 0
	}
	origin := strings.ToLower(values[0])
	if slices.Contains(g.origins, "*") || slices.Contains(g.origins, origin) {
		return true
	}
	u, err := url.Parse(origin)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && isLoopback(u.Hostname())
}

// informs reports whether a request may read what is of no use to strangers. Besides
// our names, addresses will do: probes ask for them, and no page can be served under
// an address that is not its server's (to rebind takes a name).
func (g *guard) informs(r *http.Request) bool {
	_, err := netip.ParseAddr(hostname(r.Host))
	return (err == nil || g.hostAllowed(r.Host)) && g.originAllowed(r)
}

// hostname strips the port and the brackets of a Host header.
func hostname(host string) string {
	if strings.Contains(host, ":") { // else there is no port
		if h, _, err := net.SplitHostPort(host); err == nil {
			host = h
		}
	}
	return strings.ToLower(strings.Trim(host, "[]"))
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
