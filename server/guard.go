package server

import (
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
)

// guard refuses requests that a web page made a browser send: a foreign Origin,
// or a Host that is not ours (DNS rebinding). MCP demands the check of Origin
// (basic/transports/streamable-http, security).
type guard struct {
	hosts, origins []string
}

func newGuard(hosts, origins []string) *guard {
	lower := func(list []string) []string {
		out := make([]string, len(list))
		for i, s := range list {
			out[i] = strings.ToLower(strings.TrimSuffix(s, "/"))
		}
		return out
	}
	return &guard{lower(hosts), lower(origins)}
}

// refuse returns why a request is not served, or "".
func (g *guard) refuse(r *http.Request) string {
	if !g.hostAllowed(r.Host) {
		return "host not allowed"
	}
	if values := r.Header.Values("Origin"); len(values) > 1 || len(values) == 1 && !g.originAllowed(values[0]) {
		return "origin not allowed"
	}
	return ""
}

func (g *guard) hostAllowed(host string) bool {
	name := hostname(host)
	return isLoopback(name) || slices.Contains(g.hosts, "*") || slices.Contains(g.hosts, name)
}

func (g *guard) originAllowed(origin string) bool {
	if slices.Contains(g.origins, "*") || slices.Contains(g.origins, strings.ToLower(origin)) {
		return true
	}
	u, err := url.Parse(origin)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && isLoopback(strings.ToLower(u.Hostname()))
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
