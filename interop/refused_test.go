package interop

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server"
	"github.com/mcpsaga/mcpsaga/steps"
)

// bystander is a server on which one caller has begun all that another might want to get at.
type bystander struct {
	t        *testing.T
	resource string
	mounted  bool
	links    chan string // to pages
	tokens   map[string]string
	// What ann has: a token of a saga, the state of a call, a session and the last event of a stream in it, tasks of both
	// eras, a page for a clerk.
	token, state, session, event, task, oldTask, page string
	// bobs is a session of another caller's.
	bobs string
}

// said is what a server says.
type said struct {
	status          int
	challenge, body string
}

func (b *bystander) send(version, method, params, token string, session ...string) said {
	status, header, body := ask(b.t, b.resource, version, method, b.tokens[token], append([]string{params}, session...)...)
	return said{status, header.Get("WWW-Authenticate"), body}
}

// get requests a stream, the end of a session, or a page.
func (b *bystander) get(method, at, token string, header ...string) said {
	r, err := http.NewRequest(method, at, nil)
	require.NoError(b.t, err)
	r.Header.Set("Accept", "text/event-stream")
	if b.tokens[token] != "" {
		r.Header.Set("Authorization", "Bearer "+b.tokens[token])
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	return b.begin(r, "\n")
}

// begin sends a request, and reads until what it waits for has come.
func (b *bystander) begin(r *http.Request, until string) said {
	ctx, cancel := context.WithTimeout(b.t.Context(), 10*time.Second)
	defer cancel()
	resp, err := http.DefaultClient.Do(r.WithContext(ctx))
	require.NoError(b.t, err)
	defer resp.Body.Close()
	var body []byte
	for part := make([]byte, 4096); !regexp.MustCompile(until).Match(body); {
		n, err := resp.Body.Read(part)
		if body = append(body, part[:n]...); err != nil {
			break
		}
	}
	return said{resp.StatusCode, resp.Header.Get("WWW-Authenticate"), string(body)}
}

// found is what an expression finds in a text.
func (b *bystander) found(expression, text string) string {
	found := regexp.MustCompile(expression).FindStringSubmatch(text)
	require.NotNil(b.t, found, "%s in %s", expression, text)
	return found[1]
}

// pays is a tool that asks another user, on a page.
func (b *bystander) pays() saga.Definition {
	approve := &steps.Form[struct {
		OK bool `json:"ok"`
	}]{ID: "approve", Message: "Is it right?", By: steps.By{"clerk"}, Within: time.Hour}
	tell := &saga.Effect[string, string]{Name: "tell", Do: func(_ context.Context, _ saga.Key, link string) (string, error) {
		b.links <- link
		return "", nil
	}}
	return saga.Flow[struct{}, string]{
		Info: saga.Info{Name: "pay", Asks: []steps.Question{approve}, Effects: []saga.Declared{tell}, Tasks: saga.Tasks{Mode: saga.TasksOptional}},
		Run: func(r *saga.Run, _ struct{}) (string, error) {
			link, err := saga.Page(r, approve)
			if err == nil {
				_, err = saga.Do(r, tell, link)
			}
			if err == nil {
				_, err = saga.Ask(r, approve)
			}
			return "paid", err
		},
	}
}

func newBystander(t *testing.T, issuer string, mounted bool) *bystander {
	b := &bystander{t: t, mounted: mounted, links: make(chan string, 1)}
	b.resource = serveProtected(t, issuer, "/mcp", mounted, func(o *server.Options) {
		o.Tools = append(o.Tools, b.pays())
		o.Questions.PageURL = "http://127.0.0.1/ask"
	})
	b.tokens = map[string]string{
		"ann": machineToken(t, issuer, "machine", b.resource, "tools orders"), "bob": machineToken(t, issuer, "other", b.resource, "tools orders"),
		"ann again": machineToken(t, issuer, "machine", b.resource, "tools orders"), "few scopes": machineToken(t, issuer, "machine", b.resource, "orders"),
		"no orders": machineToken(t, issuer, "machine", b.resource, "tools"), "for another": machineToken(t, issuer, "machine", b.resource+"/other", "tools orders"),
		"expired": machineToken(t, issuer, "short", b.resource, "tools orders"),
	}
	open := func(token string) string {
		status, header, body := ask(t, b.resource, "2025-11-25", "initialize", b.tokens[token])
		require.Equal(t, 200, status, body)
		return header.Get("Mcp-Session-Id")
	}
	b.session, b.bobs = open("ann"), open("bob")
	b.token = b.found(`"sagaToken":"([^"]+)"`, b.send("2025-11-25", "tools/callSaga", order, "ann").body)
	b.state = b.found(`"requestState":"([^"]+)"`, b.send("2026-07-28", "tools/call", order, "ann").body)
	b.task = b.found(`"taskId":"([^"]+)"`, b.send("2026-07-28", "tools/call", `{"name":"order","task":{}}`, "ann").body)
	if !mounted {
		b.oldTask = b.found(`"taskId":"([^"]+)"`, b.send("2025-11-25", "tools/call", `{"name":"order","task":{}}`, "ann", b.session).body)
		called := b.begin(newAsk(t, b.resource, "2025-11-25", "tools/call", b.tokens["ann"], order, b.session), "elicitation/create")
		b.event = b.found(`(?m)^id: *(\S+)`, called.body)
		b.send("2026-07-28", "tools/call", `{"name":"pay","task":{}}`, "ann")
		b.page = strings.Replace(<-b.links, "http://127.0.0.1", strings.TrimSuffix(b.resource, "/mcp"), 1)
	}
	require.Eventually(t, func() bool { return b.send("2025-11-25", "initialize", "{}", "expired").status == 401 }, 10*time.Second, 100*time.Millisecond)
	return b
}

const order = `{"name":"order"}`

func (b *bystander) resume() string {
	return `{"sagaToken":"` + b.token + `","completedSteps":[{"stepId":"sure","result":{"action":"accept","content":{"sure":true}}}]}`
}

func (b *bystander) again() string {
	return `{"name":"order","requestState":"` + b.state + `","inputResponses":{"sure":{"action":"accept","content":{"sure":true}}}}`
}

// doors are where a token is looked at, by their names.
func (b *bystander) doors() map[string]func(token string) said {
	doors := map[string]func(string) said{
		"2026-07-28":     func(token string) said { return b.send("2026-07-28", "tools/list", "{}", token) },
		"2025-11-25":     func(token string) said { return b.send("2025-11-25", "initialize", "{}", token) },
		"saga":           func(token string) said { return b.send("2025-11-25", "tools/callSaga", `{"name":"whoami"}`, token) },
		"session":        func(token string) said { return b.send("2025-11-25", "tools/list", "{}", token, b.session) },
		"stream":         func(token string) said { return b.get("GET", b.resource, token, "Mcp-Session-Id", b.session) },
		"end of session": func(token string) said { return b.get("DELETE", b.resource, token, "Mcp-Session-Id", b.session) },
	}
	if !b.mounted {
		doors["page"] = func(token string) said { return b.get("GET", b.page, token) }
	}
	return doors
}

// TestWhatIsRefused: tokens that are not good enough, and what another caller has begun, get the status, the challenge and the
// code that the specification says, in both eras, on our server and on the Go SDK's. Nothing of it changes what was begun.
func TestWhatIsRefused(t *testing.T) {
	t.Parallel()
	issuer := startAuthServer(t)
	for _, mounted := range []bool{false, true} {
		t.Run(fmt.Sprint("mounted ", mounted), func(t *testing.T) {
			t.Parallel()
			b := newBystander(t, issuer, mounted)
			metadata := `Bearer resource_metadata="` + strings.Replace(b.resource, "/mcp", "/.well-known/oauth-protected-resource/mcp", 1) + `"`
			const invalid = `, error="invalid_token", error_description="the access token is not valid here, or no longer", scope="tools:read"`
			const few = `, error="insufficient_scope", error_description="this takes scopes that the access token does not have", scope="tools:read orders"`
			for token, want := range map[string]said{
				"none": {401, metadata + `, scope="tools:read"`, ""}, "for another": {401, metadata + invalid, ""},
				"expired": {401, metadata + invalid, ""}, "few scopes": {403, metadata + few, ""},
			} {
				for door, try := range b.doors() {
					got := try(token)
					assert.Equal(t, want.status, got.status, "%s, %s: %s", door, token, got.body)
					assert.Equal(t, want.challenge, got.challenge, "%s, %s", door, token)
					assert.NotRegexp(t, "audience|expire|Is it right|signature", got.body, "%s, %s", door, token)
				}
			}
			noOrders := map[string]said{
				"2026-07-28":   b.send("2026-07-28", "tools/call", order, "no orders"),
				"2025-11-25":   b.send("2025-11-25", "tools/call", order, "no orders", b.session),
				"saga":         b.send("2025-11-25", "tools/callSaga", order, "no orders"),
				"a later turn": b.send("2026-07-28", "tools/call", b.again(), "no orders"),
			}
			nameless := map[string]said{
				"a later turn of a saga": b.send("2025-11-25", "tools/resumeSaga", b.resume(), "no orders"),
				"task":                   b.send("2026-07-28", "tasks/get", `{"taskId":"`+b.task+`"}`, "no orders"),
			}
			if !mounted {
				maps.Copy(noOrders, nameless)
			}
			for door, got := range noOrders {
				assert.Equal(t, 403, got.status, "%s: %s", door, got.body)
				assert.Equal(t, metadata+few, got.challenge, door)
			}
			for door, got := range nameless { // by the Go SDK, which has begun the response when that is known
				assert.Contains(t, got.body, "this needs a permission that the caller does not have", door)
			}

			invalidParams := map[bool]int{false: 200, true: 400}[mounted] // with the code -32602; the specification leaves it open
			type refusal struct {
				status int
				body   string
				got    said
			}
			refusals := map[string]refusal{
				"saga token":         {200, `"code":-32602,"message":"the saga token is not valid here`, b.send("2025-11-25", "tools/resumeSaga", b.resume(), "bob")},
				"its end":            {200, `"code":-32602,"message":"the saga token is not valid here`, b.send("2025-11-25", "tools/cancelSaga", b.resume(), "bob")},
				"state":              {invalidParams, `"code":-32602,"message":"the requestState is not valid here`, b.send("2026-07-28", "tools/call", b.again(), "bob")},
				"session":            {403, "session", b.send("2025-11-25", "tools/list", "{}", "bob", b.session)},
				"stream":             {403, "session", b.get("GET", b.resource, "bob", "Mcp-Session-Id", b.session)},
				"end of the session": {403, "session", b.get("DELETE", b.resource, "bob", "Mcp-Session-Id", b.session)},
			}
			for _, method := range []string{"tasks/get", "tasks/update", "tasks/cancel"} {
				got := b.send("2026-07-28", method, `{"taskId":"`+b.task+`","inputResponses":{"sure":{"action":"accept","content":{"sure":true}}}}`, "bob")
				refusals[method] = refusal{invalidParams, `"code":-32602,"message":"there is no such task`, got}
			}
			if !mounted {
				for _, method := range []string{"tasks/get", "tasks/result", "tasks/cancel"} {
					got := b.send("2025-11-25", method, `{"taskId":"`+b.oldTask+`"}`, "bob", b.bobs)
					refusals["old "+method] = refusal{200, `"code":-32602,"message":"there is no such task`, got}
				}
				refusals["event"] = refusal{400, "nothing to resume", b.get("GET", b.resource, "bob", "Mcp-Session-Id", b.bobs, "Last-Event-ID", b.event)}
				refusals["page"] = refusal{403, "<html", b.get("GET", b.page, "bob")}
				refusals["page of an own call"] = refusal{403, "<html", b.get("GET", b.page, "ann")}
			}
			for what, r := range refusals {
				assert.Equal(t, r.status, r.got.status, "%s: %s", what, r.got.body)
				assert.Contains(t, r.got.body, r.body, what)
				assert.Empty(t, r.got.challenge, "another token of that caller does not help: %s", what)
			}
			listen := `{"notifications":{"taskIds":["` + b.task + `"]}}`
			heard := b.begin(newAsk(t, b.resource, "2026-07-28", "subscriptions/listen", b.tokens["bob"], listen), "\n\n")
			assert.NotContains(t, heard.body, b.task)

			assert.Contains(t, b.send("2025-11-25", "tools/resumeSaga", b.resume(), "ann again").body, "ordered")
			assert.Contains(t, b.send("2026-07-28", "tools/call", b.again(), "ann again").body, "ordered")
			assert.Equal(t, 200, b.send("2025-11-25", "tools/list", "{}", "ann again", b.session).status)
			assert.Contains(t, b.send("2026-07-28", "tasks/get", `{"taskId":"`+b.task+`"}`, "ann again").body, `"status":"input_required"`)
			if !mounted {
				assert.Contains(t, b.send("2025-11-25", "tasks/get", `{"taskId":"`+b.oldTask+`"}`, "ann again", b.session).body, `"status":"input_required"`)
				back := b.get("GET", b.resource, "ann again", "Mcp-Session-Id", b.session, "Last-Event-ID", b.event)
				assert.Equal(t, 200, back.status, back.body)
			}
		})
	}
}
