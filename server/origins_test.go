package server_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/internal/jsontest"
	"github.com/mcpsaga/mcpsaga/internal/jsonview"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server"
)

// exchange sends a request and returns the response's status, headers and body.
func (r *rig) exchange(method, path, body string, headers ...string) (int, http.Header, string) {
	r.t.Helper()
	req, err := http.NewRequest(method, r.url+path, strings.NewReader(body))
	require.NoError(r.t, err)
	req.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(headers); i += 2 {
		switch name, value := headers[i], headers[i+1]; name {
		case "Host":
			req.Host = value
		case "Content-Type":
			req.Header.Set(name, value)
		default:
			req.Header.Add(name, value)
		}
	}
	resp, err := http.DefaultClient.Do(req)
	require.NoError(r.t, err)
	return resp.StatusCode, resp.Header, readAll(r.t, resp)
}

const app = "https://app.example"

// What a browser asks before it sends a page's request.
func TestPreflight(t *testing.T) {
	r := newRig(t, server.Options{AllowedHosts: []string{"saga.example"}, AllowedOrigins: []string{app}})
	// As browsers write them: in lower case, sorted, without those that need no asking.
	const clients = "accept,authorization,content-type,last-event-id,mcp-method,mcp-name,mcp-param-region,mcp-protocol-version,mcp-session-id,x-api-key"
	tests := []struct {
		name, origin, host, method, headers string
		status                              int
		allowed                             bool
	}{
		{"POST", app, "saga.example", "POST", clients, 204, true},
		{"GET", app, "saga.example", "GET", "accept,last-event-id,mcp-session-id", 204, true},
		{"DELETE", app, "saga.example", "DELETE", "mcp-session-id", 204, true},
		{"no headers", app, "saga.example", "POST", "", 204, true},
		{"a page of this machine", "http://localhost:6274", "", "POST", clients, 204, true},
		{"PUT", app, "saga.example", "PUT", "", 204, false},
		{"another origin", "https://evil.example", "saga.example", "POST", clients, 403, false},
		{"another scheme", "http://app.example", "saga.example", "POST", clients, 403, false},
		{"another port", app + ":8443", "saga.example", "POST", clients, 403, false},
		{"no origin in particular", "null", "saga.example", "POST", clients, 403, false},
		{"another host", app, "evil.example", "POST", clients, 403, true},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			headers := []string{"Host", test.host, "Origin", test.origin, "Access-Control-Request-Method", test.method}
			if test.headers != "" {
				headers = append(headers, "Access-Control-Request-Headers", test.headers)
			}
			status, got, body := r.exchange("OPTIONS", "/mcp", "", headers...)
			assert.Equal(t, test.status, status, body)
			want := http.Header{}
			if test.allowed {
				want.Set("Access-Control-Allow-Origin", test.origin)
				want.Set("Access-Control-Allow-Methods", test.method)
				want.Set("Access-Control-Max-Age", "600")
				if test.headers != "" {
					want.Set("Access-Control-Allow-Headers", test.headers)
				}
			}
			assert.Equal(t, want, accessControl(got))
			assert.Contains(t, got.Get("Vary"), "Origin")
		})
	}
	for name, headers := range map[string][]string{
		"no preflight": {"Origin", app},
		"no page":      {"Access-Control-Request-Method", "POST"},
	} {
		status, _, _ := r.exchange("OPTIONS", "/mcp", "", headers...)
		assert.Equal(t, 405, status, name)
	}
	t.Run("nobody is authenticated yet", func(t *testing.T) {
		r := newRig(t, server.Options{AllowedOrigins: []string{app}, Authenticate: func(*http.Request) (saga.Caller, error) {
			return saga.Caller{}, errors.New("no credential, as in every preflight")
		}})
		status, got, body := r.exchange("OPTIONS", "/mcp", "", "Origin", app, "Access-Control-Request-Method", "POST")
		assert.Equal(t, 204, status, body)
		assert.Equal(t, app, got.Get("Access-Control-Allow-Origin"))
		assert.Empty(t, r.log.take())
	})
	status, got, _ := r.exchange("OPTIONS", "/readyz", "", "Origin", app, "Access-Control-Request-Method", "GET")
	assert.Equal(t, 405, status)
	assert.Empty(t, accessControl(got))
}

func accessControl(h http.Header) http.Header {
	found := http.Header{}
	for name, values := range h {
		if strings.HasPrefix(name, "Access-Control-") {
			found[name] = values
		}
	}
	return found
}

// A page reads every answer, refusals too, and those headers that it needs. No page
// makes the browser send what it keeps for this server, such as cookies.
func TestPagesReadAnswers(t *testing.T) {
	r := newRig(t, server.Options{
		Tools: legacyDefinitions(), MaxBody: 1000, MaxSessions: 1, AllowedHosts: []string{"saga.example"}, AllowedOrigins: []string{app},
		Authenticate: func(q *http.Request) (saga.Caller, error) {
			if q.Header.Get("Authorization") == "" {
				return saga.Caller{}, errors.New("none")
			}
			return saga.Caller{Subject: q.Header.Get("Authorization")}, nil
		},
	})
	_, got, _ := r.exchange("POST", "/mcp", initializeMessage("2025-11-25", everything), "Origin", app, "Authorization", "ann")
	another := got.Get("Mcp-Session-Id")
	require.NotEmpty(t, another)
	c := r.connect("2025-11-25", everything, func(c *legacyClient) { c.header.Set("Authorization", "ann") })
	c.stream(toolCall(1, "complex_tool", `{}`)).wait("elicitation/create")
	session := c.session
	tests := []struct {
		name, method, body string
		headers            []string
		status             int
	}{
		{"an answer", "POST", pingMessage, nil, 200},
		{"a notification", "POST", `{"jsonrpc":"2.0","method":"notifications/initialized"}`, nil, 202},
		{"not authenticated", "POST", pingMessage, []string{"Authorization", ""}, 401},
		{"another host", "POST", pingMessage, []string{"Host", "evil.example"}, 403},
		{"another's session", "POST", pingMessage, []string{"Mcp-Session-Id", session, "Authorization", "bob"}, 403},
		{"no such session", "POST", pingMessage, []string{"Mcp-Session-Id", "nope"}, 404},
		{"GET without a session", "GET", "", nil, 405},
		{"JSON instead of a stream", "GET", "", []string{"Mcp-Session-Id", session, "Accept", "application/json"}, 406},
		{"not JSON", "POST", pingMessage, []string{"Content-Type", "text/plain"}, 415},
		{"too large", "POST", strings.Repeat(" ", 1001), nil, 413},
		{"nothing", "POST", "", nil, 400},
		{"another revision's refusal", "POST", listTools, []string{"Mcp-Protocol-Version", "2026-07-28"}, 400},
		{"too many sessions", "POST", toolCall(1, "sum", `{}`), []string{"Mcp-Session-Id", another}, 503},
		{"the end of a session", "DELETE", "", []string{"Mcp-Session-Id", session}, 204},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			headers := map[string]string{"Authorization": "ann"}
			for i := 0; i < len(test.headers); i += 2 {
				headers[test.headers[i]] = test.headers[i+1]
			}
			send := func(origin string) (int, http.Header, string) {
				var list []string
				for name, value := range headers {
					list = append(list, name, value)
				}
				return r.exchange(test.method, "/mcp", test.body, append(list, "Origin", origin)...)
			}
			status, got, body := send("https://evil.example")
			assert.Equal(t, 403, status, body)
			assert.Empty(t, accessControl(got), "pages elsewhere read nothing")
			status, got, body = send(app)
			assert.Equal(t, test.status, status, body)
			assert.Equal(t, http.Header{
				"Access-Control-Allow-Origin":   {app},
				"Access-Control-Expose-Headers": {"Mcp-Session-Id, Www-Authenticate, Retry-After"},
			}, accessControl(got))
			assert.Contains(t, got.Values("Vary"), "Origin")
		})
	}
	_, got, _ = r.exchange("POST", "/mcp", pingMessage, "Authorization", "ann")
	assert.Empty(t, accessControl(got), "who is no page needs none of it")
}

// What no request can match, or what lets in more than it says, is refused at once.
func TestOriginsAndHostsAreChecked(t *testing.T) {
	someone := func(*http.Request) (saga.Caller, error) { return saga.Caller{}, nil }
	allow := func(origins ...string) server.Options { return server.Options{AllowedOrigins: origins} }
	tests := []struct {
		name    string
		options server.Options
		want    string // of the error; "" for none
	}{
		{"an origin", allow("https://app.example"), ""},
		{"an origin with a slash at its end, and a port", allow("https://App.Example:8443/"), ""},
		{"an extension", allow("chrome-extension://abcdefgh"), ""},
		{"IPv6", allow("http://[2001:db8::1]:8080"), ""},
		{"a path", allow("https://app.example/app"), "scheme, host and port"},
		{"a query", allow("https://app.example?x"), "scheme, host and port"},
		{"a user", allow("https://user@app.example"), "scheme, host and port"},
		{"no scheme", allow("app.example"), "scheme, host and port"},
		{"no scheme, a port", allow("app.example:8080"), "scheme, host and port"},
		{"no host", allow("https://"), "scheme, host and port"},
		{"no port after the colon", allow("https://app.example:"), "scheme, host and port"},
		{"empty", allow(""), "scheme, host and port"},
		{"two in one", allow("https://app.example,https://b.example"), "scheme, host and port"},
		{"not as browsers write it", allow("https://bücher.example"), "scheme, host and port"},
		{"no URL", allow("https://[::1"), "scheme, host and port"},
		{"null", allow("https://app.example", "null"), "every page can have"},
		{"a pattern", allow("https://*.app.example"), "patterns are not supported"},
		{"any, nobody authenticated", allow("*"), "name the origins"},
		{"any of two", allow("https://app.example", "*"), "name the origins"},
		{"any, at any host", server.Options{AllowedOrigins: []string{"*"}, AllowedHosts: []string{"*"}}, "name the origins"},
		{"any, in public", server.Options{AllowedOrigins: []string{"*"}, AllowedHosts: []string{"saga.example"}}, ""},
		{"any, authenticated", server.Options{AllowedOrigins: []string{"*"}, Authenticate: someone}, ""},

		{"hosts", server.Options{AllowedHosts: []string{"*", "saga.example", "10.0.0.1", "[2001:db8::1]", "2001:db8::1"}}, ""},
		{"a host with a port", server.Options{AllowedHosts: []string{"saga.example:8080"}}, "without scheme and port"},
		{"two hosts in one", server.Options{AllowedHosts: []string{"saga.example,other.example"}}, "without scheme and port"},
		{"two origins in one", server.Options{AllowedOrigins: []string{"https://a.example,b.example"}}, "one by one"},
		{"a host's URL", server.Options{AllowedHosts: []string{"https://saga.example"}}, "without scheme and port"},
		{"a pattern of hosts", server.Options{AllowedHosts: []string{"*.example"}}, "without scheme and port"},
		{"no host at all", server.Options{AllowedHosts: []string{""}}, "without scheme and port"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			test.options.Keys = newKeys(t)
			_, err := server.New(test.options)
			if test.want == "" {
				assert.NoError(t, err)
			} else {
				assert.ErrorContains(t, err, test.want)
			}
		})
	}
	r := newRig(t, server.Options{AllowedOrigins: []string{"https://App.Example:443/", "http://[2001:DB8::1]:80"}, AllowedHosts: []string{"[2001:DB8::1]"}})
	for _, origin := range []string{"https://app.example", "http://[2001:db8::1]"} {
		status, _, body := r.exchange("POST", "/mcp", pingMessage, "Origin", origin, "Host", "[2001:db8::1]:8080")
		assert.Equal(t, 200, status, body)
	}
}

// An operator reads what was refused, and what to do; how much is repeated is bounded.
func TestRefusedHostsAndOriginsAreNamed(t *testing.T) {
	r := newRig(t, server.Options{})
	long := strings.Repeat("x", 30_000)
	tests := []struct {
		name, host, origin string
		want               []string
	}{
		{"host", "two:8080", "", []string{`"two:8080"`, "AllowedHosts", "--allow-host", "proxy"}},
		{"host that is no name", "a'b", "", []string{`"a'b"`, "--allow-host"}},
		{"long host", long, "", []string{strings.Repeat("x", 253), "--allow-host"}},
		{"origin", "", "https://evil.example", []string{`"https://evil.example"`, "AllowedOrigins", "--allow-origin"}},
		{"origin that is none", "", "<b>\t\"\\\u00e9\xff", []string{`"<b>\t\"\\\u00e9\xff"`}},
		{"long origin", "", "https://" + long, []string{strings.Repeat("x", 200), "--allow-origin"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var headers []string
			if test.host != "" {
				headers = append(headers, "Host", test.host)
			}
			if test.origin != "" {
				headers = append(headers, "Origin", test.origin)
			}
			r.log.take()
			status, got, body := r.exchange("POST", "/mcp", pingMessage, headers...)
			log := r.log.take()
			require.Equal(t, 403, status)
			require.True(t, jsonview.Valid([]byte(body)), body)
			message := jsontest.Get(body, "error.message").String()
			for _, want := range test.want {
				assert.Contains(t, message, want)
				assert.Contains(t, jsontest.Get(log, "reason").String(), want)
			}
			assert.Less(t, len(body), 1000)
			assert.Less(t, len(log), 2000)
			assert.NotContains(t, body+log, strings.Repeat("x", 254))
			assert.Equal(t, "nosniff", got.Get("X-Content-Type-Options"))
		})
	}
	t.Run("no page's origin", func(t *testing.T) {
		for _, origin := range []string{"http://[::1", "ftp://localhost", "localhost", "http://localhost.evil.example", "http://localhost@evil.example", "://"} {
			status, _, body := r.exchange("POST", "/mcp", pingMessage, "Origin", origin)
			assert.Equal(t, 403, status, origin)
			assert.Contains(t, body, "origin not allowed")
		}
	})
	t.Run("twice", func(t *testing.T) {
		status, got, body := r.exchange("POST", "/mcp", pingMessage, "Origin", "http://localhost", "Origin", "http://localhost")
		assert.Equal(t, 403, status, body)
		assert.Empty(t, accessControl(got))
	})
}

// Probes ask under any name, and need the status only. What else there is to read is
// for the server's own names and for addresses, neither of which a foreign page has.
func TestHealthTellsStrangersTheStatusOnly(t *testing.T) {
	r := newRig(t, server.Options{AllowedHosts: []string{"saga.example"}, AllowedOrigins: []string{app}})
	tests := []struct {
		name, host, origin string
		keys               bool
	}{
		{"as it came", "", "", true},
		{"own name", "saga.example", "", true},
		{"own name with a port", "saga.example:8080", "", true},
		{"a pod's address", "10.1.2.3:8080", "", true},
		{"a pod's address of IPv6", "[fd00::3]:8080", "", true},
		{"another name", "evil.example", "", false},
		{"a name that looks like an address", "10.1.2.3.evil.example", "", false},
		{"a page", "saga.example", app, true},
		{"another page", "saga.example", "https://evil.example", false},
		{"another page, by address", "10.1.2.3:8080", "https://evil.example", false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			headers := []string{"Host", test.host}
			if test.origin != "" {
				headers = append(headers, "Origin", test.origin)
			}
			status, got, body := r.exchange("GET", "/healthz", "", headers...)
			assert.Equal(t, 200, status)
			assert.Equal(t, `{"status":"ok"}`, body)
			assert.Empty(t, accessControl(got))
			status, got, body = r.exchange("GET", "/readyz", "", headers...)
			assert.Equal(t, 200, status)
			assert.Empty(t, accessControl(got))
			if test.keys {
				assert.Contains(t, body, `"keys":[{"id"`)
			} else {
				assert.Equal(t, `{"status":"ready"}`, body)
			}
		})
	}
}
