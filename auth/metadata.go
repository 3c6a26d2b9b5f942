package auth

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
)

// wellKnown is where clients look for what a server says of its authorization (RFC 9728, section 3).
const wellKnown = "/.well-known/oauth-protected-resource"

// metadata is what clients read, for the resource as it is written with and without a slash at its end: they compare
// it with the URL that they know, byte by byte.
type metadata struct {
	path        string // of the resource, without a slash at its end
	slash       bool   // the resource is written with one
	url         string // without a slash at its end, unless it is the user's
	own         bool   // url is the user's
	plain, with []byte // the documents
}

func (g *Guard) newMetadata() (m metadata, err error) {
	o := &g.opts
	u, err := url.Parse(o.Resource)
	if err != nil || u.Host == "" || u.RawQuery != "" || u.Fragment != "" || u.User != nil || strings.ContainsAny(o.Resource, "\"\\ ") {
		return m, fmt.Errorf("auth: Options.Resource %q must be the endpoint's URL, such as https://tools.example.com/mcp", o.Resource)
	}
	for _, at := range append([]string{o.Resource}, o.AuthorizationServers...) {
		if err := checkURL(at); err != nil {
			return m, err
		}
	}
	path := u.EscapedPath()
	m = metadata{path: strings.TrimRight(path, "/"), slash: strings.HasSuffix(path, "/") && path != "/", url: o.MetadataURL, own: o.MetadataURL != ""}
	origin := u.Scheme + "://" + u.Host
	if !m.own {
		m.url = origin + wellKnown + m.path
	} else if err := checkURL(m.url); err != nil {
		return m, err
	}
	if m.plain, err = g.document(origin + m.path); err == nil {
		m.with, err = g.document(origin + m.path + "/")
	}
	return m, err
}

func (g *Guard) document(resource string) ([]byte, error) {
	return json.Marshal(struct {
		Resource      string   `json:"resource"`
		Servers       []string `json:"authorization_servers,omitempty"`
		Scopes        []string `json:"scopes_supported,omitempty"`
		Bearer        []string `json:"bearer_methods_supported"`
		Name          string   `json:"resource_name,omitempty"`
		Documentation string   `json:"resource_documentation,omitempty"`
		Proofs        []string `json:"dpop_signing_alg_values_supported,omitempty"`
		OnlyBound     bool     `json:"dpop_bound_access_tokens_required,omitempty"`
	}{
		resource, g.opts.AuthorizationServers, g.asked(g.known), []string{"header"}, g.opts.Name, g.opts.Documentation,
		g.proofAlgorithms(), g.opts.RequireDPoP,
	})
}

// urlFor is where the client of a request finds the metadata of the URL that it has used; nil is any.
func (m *metadata) urlFor(r *http.Request) string {
	slash := m.slash
	if r != nil && r.URL != nil && m.path != "" {
		slash = strings.HasSuffix(r.URL.Path, "/")
	}
	if slash && !m.own {
		return m.url + "/"
	}
	return m.url
}

// documentAt is the document at a path, or nil if there is none. It may be the well-known path alone or before the
// resource's, and a proxy may have taken away the beginning of the resource's path, or put it in front.
func (m *metadata) documentAt(path string) []byte {
	before, after, found := strings.Cut(path, wellKnown)
	slash := strings.HasSuffix(after, "/")
	after = strings.TrimSuffix(after, "/")
	if !found || after != "" && (after[0] != '/' || !strings.HasSuffix(m.path, after)) ||
		before != "" && !strings.HasPrefix(m.path+"/", before+"/") {
		return nil
	}
	if after == "" && m.path != "" {
		slash = m.slash // the well-known path alone is of the resource as it is written
	}
	if slash {
		return m.with
	}
	return m.plain
}

// Handler serves the metadata at its well-known places, and everything else by next.
func (g *Guard) Handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		document := g.metadata.documentAt(r.URL.EscapedPath())
		if document == nil {
			next.ServeHTTP(w, r)
			return
		}
		h := w.Header()
		h.Set("Access-Control-Allow-Origin", "*") // it is public
		switch r.Method {
		case http.MethodGet, http.MethodHead:
			h.Set("Content-Type", "application/json")
			h.Set("Cache-Control", "public, max-age=300")
			_, _ = w.Write(document)
		case http.MethodOptions:
			h.Set("Access-Control-Allow-Methods", "GET, HEAD, OPTIONS")
			h.Set("Access-Control-Allow-Headers", "*")
			w.WriteHeader(http.StatusNoContent)
		default:
			h.Set("Allow", "GET, HEAD, OPTIONS")
			w.WriteHeader(http.StatusMethodNotAllowed)
		}
	})
}

// checkURL refuses what tokens or keys must not travel over.
func checkURL(text string) error {
	u, err := url.Parse(text)
	if err != nil {
		return errors.New("auth: something is no URL of a server, such as https://login.example.com")
	}
	if u.Host == "" || u.User != nil || strings.ContainsAny(text, "\"\\ ") {
		return fmt.Errorf("auth: %q is no URL of a server, such as https://login.example.com", u.Redacted())
	}
	ip := net.ParseIP(u.Hostname())
	if u.Scheme == "https" || u.Scheme == "http" && (u.Hostname() == "localhost" || ip != nil && ip.IsLoopback()) {
		return nil
	}
	return errors.New("auth: " + text + " must be https, or on this machine")
}
