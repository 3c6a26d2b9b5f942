package interop

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/internal/longtests"
)

// oldClients is the document whose tables and wire logs TestOldClients compares with what
// clients do, or writes if -update is set.
const oldClients = "../docs/old-clients.md"

// goWithoutRetries is the Go SDK as one may set it up: it does not reconnect.
var goWithoutRetries = contender{"Go SDK, `MaxRetries: -1`", "2025-11-25", false, func(t *testing.T, at target, calls []call) []outcome {
	var o outcome
	u := &goSDK{user: &user{call: calls[0], outcome: &o}}
	err := u.limited(t.Context(), func(ctx context.Context, begins func()) error {
		client := mcp.NewClient(&mcp.Implementation{Name: "interop", Version: "1"}, &mcp.ClientOptions{
			ElicitationHandler: func(_ context.Context, r *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
				return u.elicit(ctx, r.Params)
			},
		})
		session, err := client.Connect(ctx, &mcp.StreamableClientTransport{Endpoint: at.URL, MaxRetries: -1}, &mcp.ClientSessionOptions{ProtocolVersion: "2025-11-25"})
		require.NoError(t, err)
		defer session.Close()
		o.Protocol = session.InitializeResult().ProtocolVersion
		begins()
		r, err := session.CallTool(ctx, &mcp.CallToolParams{Name: u.call.Tool, Arguments: u.call.Arguments})
		if err != nil {
			return err
		}
		return u.keep(r)
	})
	if err != nil {
		o.Error = err.Error()
	}
	return []outcome{o}
}}

// accident is what happens to the replica that carries a call's stream while a question is open.
type accident struct {
	title string
	// strike does it, at the first question. broken has it that no stream can be opened again.
	strike func(c *cluster, replica string) error
	broken bool
}

var accidents = []accident{
	{"killed", (*cluster).kill, false},
	{"told to stop", func(c *cluster, replica string) error {
		p, err := c.named(replica)
		if err == nil {
			c.late.Go(func() {
				if err := p.rollOver(); err != nil {
					c.t.Error(err)
				}
			})
		}
		return err
	}, false},
	{"killed, and 502 to those who come back", (*cluster).kill, true},
}

// TestOldClients looks at what each client does when the replica that carries its call is gone,
// and compares it with what the document says.
func TestOldClients(t *testing.T) {
	onlyIfWanted(t, "waits until clients give up")
	t.Parallel()
	needProgram(t, "nginx")
	needNode(t)
	clients := append(sessionClients(), olderClient, goWithoutRetries)
	found := make([]habits, len(clients))
	t.Run("clients", func(t *testing.T) {
		for i, client := range clients {
			t.Run(client.name, func(t *testing.T) {
				t.Parallel()
				found[i].find(t, client)
			})
		}
	})
	if t.Failed() {
		return
	}
	table := "| client | speaks | waits for | its replica is killed | is told to stop | is killed, and the proxy answers 502 to who comes back |\n|---|---|---|---|---|---|\n"
	var logs wireLogs
	for _, one := range found {
		if one.row == "" {
			return // only some were to be run
		}
		table += one.row + "\n"
		for _, text := range one.logs {
			logs.add(one.name, text)
		}
	}
	said, err := os.ReadFile(oldClients)
	require.NoError(t, err)
	want := inserted(t, inserted(t, string(said), "table", table), "logs", logs.String())
	if *update {
		require.NoError(t, os.WriteFile(oldClients, []byte(want), 0o600))
		return
	}
	require.Equal(t, want, string(said), longtests.Long+"=1 go test ./interop -run TestOldClients -update writes it anew")
}

// habits are what a client does when it meets with accidents.
type habits struct {
	name, row string
	logs      []string
}

// find tries it, with replicas of the client's own.
func (h *habits) find(t *testing.T, client contender) {
	c := newCluster(t, ledgers["SQLite"](t))
	f := c.behind("nginx", t, nil)
	before := client.play(t, target{URL: f.url()}, []call{confirms("")})[0]
	require.Empty(t, before.Error)
	require.Equal(t, client.protocol, before.Protocol)
	limit := "as long as it is told"
	if before.Limit > 0 {
		limit = fmt.Sprintf("%d s", before.Limit/1000)
	}
	h.name = versioned(t, client.name)
	h.row = fmt.Sprintf("| %s | %s | %s |", h.name, client.protocol, limit)
	for _, a := range accidents {
		f.forget()
		o := meets(t, c, f, client, a)
		f.outage.Store(false)
		c.late.Wait()
		f.broken(f.sessions()[0], client.protocol) // the last stream too, of which the client need not see the end
		h.row += fmt.Sprintf(" %s |", f.behaviour(o))
		came, _, _ := f.returns()
		if a.title == "killed" || o.Error != "" && (!a.broken || len(came) > 0) { // else it is as if it was killed only
			h.logs = append(h.logs, fmt.Sprintf("its replica is %s: %s\n\n```text\n%s```\n", a.title, ended(o, true), f.callLog(ended(o, false))))
		}
	}
}

// wireLogs are what passed, each with the clients of which it is the same.
type wireLogs []struct{ clients, text string }

func (l *wireLogs) add(client, text string) {
	for i := range *l {
		if one := &(*l)[i]; one.text == text {
			one.clients += "; " + client
			return
		}
	}
	*l = append(*l, struct{ clients, text string }{client, text})
}

func (l wireLogs) String() string {
	var all []string
	for _, one := range l {
		all = append(all, "**"+one.clients+"**, "+one.text)
	}
	return strings.Join(all, "\n")
}

// inserted replaces what a document has between two comments.
func inserted(t *testing.T, doc, name, text string) string {
	t.Helper()
	between := regexp.MustCompile(`(?s)(<!-- replicas:` + name + ` -->\n).*?(<!-- /replicas -->)`)
	require.Regexp(t, between, doc)
	return between.ReplaceAllStringFunc(doc, func(s string) string {
		m := between.FindStringSubmatch(s)
		return m[1] + "\n" + text + "\n" + m[2]
	})
}

// meets has a client meet with an accident, and returns what became of its call.
func meets(t *testing.T, c *cluster, f *front, client contender, a accident) (o outcome) {
	t.Helper()
	replica := ""
	struck := make(chan error, 1)
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.ReadAll(r.Body)
		if replica != "" {
			return // it is asked again
		}
		var err error
		if replica, err = f.holder(""); err == nil {
			f.outage.Store(a.broken)
			err = a.strike(c, replica)
		}
		if !a.broken {
			f.broken(f.sessions()[0], client.protocol) // so that what it does next comes after
		}
		struck <- err
	}))
	defer s.Close()
	one := confirms(s.URL)
	one.Timeout = 6000
	o = client.play(t, target{URL: f.url()}, []call{one})[0]
	require.NoError(t, <-struck)
	if o.Error == "" {
		assert.Equal(t, "a would be deleted.", o.text())
	}
	return o
}

// broken waits until the stream of a call has ended, but not for long with a client of earlier
// revisions: that of a replica which is told to stop may go on.
func (f *front) broken(session, protocol string) {
	most := time.Second
	if protocol == "2025-11-25" {
		most *= 4
	}
	for end := time.Now().Add(most); time.Now().Before(end); {
		open := false
		for _, e := range f.entries(session) {
			open = open || e.calls && e.end == ""
		}
		if !open {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// TestLastAnswers: a client that does not come back is told to call again when a replica that is
// told to stop can wait for its answer no longer. The replica stops in time all the same.
func TestLastAnswers(t *testing.T) {
	if !nightly {
		t.Skip("waits as long as a server takes to stop; SAGA_NIGHTLY is not 1")
	}
	t.Parallel()
	c := newCluster(t, ledgers["SQLite"](t))
	f := c.behind("nginx", t, nil)
	stopped := make(chan error, 1)
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		replica, err := f.holder("")
		if err == nil {
			err = accidents[1].strike(c, replica)
		}
		stopped <- err
		select {
		case <-time.After(30 * time.Second):
		case <-r.Context().Done():
		}
	}))
	t.Cleanup(func() { s.CloseClientConnections(); s.Close() })
	o := olderClient.play(t, target{URL: f.url()}, []call{confirms(s.URL)})[0]
	require.NoError(t, <-stopped)
	assert.Contains(t, o.Error, "the server stops; call again")
	c.late.Wait()
}

// returns are the requests by which a client wants to go on with the stream of its call, when that
// broke, and after how long the client was told to come back.
func (f *front) returns() (list []exchange, broke, told time.Duration) {
	for _, e := range f.entries("") {
		switch {
		case e.method == http.MethodPost && e.stream && strings.HasPrefix(e.what, "tools/call"):
			broke = e.ended
			for _, h := range e.heard {
				if ms, ok := strings.CutPrefix(h, "retry "); ok {
					told, _ = time.ParseDuration(ms + "ms")
				}
			}
		case e.method == http.MethodGet && e.mark != "" && e.calls:
			list = append(list, e)
		}
	}
	return list, broke, told
}

// behaviour is what a client did, in words.
func (f *front) behaviour(o outcome) string {
	list, broke, told := f.returns()
	did := "does not come back"
	if len(list) > 0 {
		after := list[0].at - broke
		if late := after - told; late > -100*time.Millisecond && late < 4*time.Second {
			after = told // a machine with much to do makes it late
		}
		did = fmt.Sprintf("comes back after %d s", int(after.Round(100*time.Millisecond).Seconds()))
		if o.Error != "" { // how often depends on the time that it has
			did += map[bool]string{true: " (once)", false: " (again and again)"}[len(list) == 1]
		}
	}
	return did + "; " + ended(o, false)
}

const failsAtOnce = "the call fails at once"

// ended is how a call ended, if need be with the error that its caller sees.
func ended(o outcome, verbose bool) string {
	switch {
	case o.Error == "":
		return "the call ends as ever"
	case strings.Contains(o.Error, "timed out"), strings.Contains(o.Error, "deadline exceeded"):
		return "it waits in vain until its time is over"
	case !verbose:
		return failsAtOnce
	}
	said := regexp.MustCompile(`\(session ID: \S+\)`).ReplaceAllString(o.Error, "(…)")
	said = regexp.MustCompile(`jsonrpc response #\d+`).ReplaceAllString(said, "response")
	return "`" + said + "`"
}

// callLog is what passed of a call that ended so, without what differs from run to run.
func (f *front) callLog(end string) string {
	ids := regexp.MustCompile(`#\S+|\b[\w-]+_\d+(\.[\w.]+)?`)
	var lines []string
	for _, e := range f.entries("") {
		switch {
		case strings.HasPrefix(e.what, answerTo) && end == failsAtOnce:
			continue // it may not come to that
		case strings.HasPrefix(e.what, "tools/call"), strings.HasPrefix(e.what, answerTo), e.what == "notifications/cancelled":
		case e.calls && e.mark != "":
			e.what = "(Last-Event-ID)"
		default:
			continue
		}
		line := fmt.Sprintf("%-4s %s -> %d", e.method, short(ids.ReplaceAllString(e.what, "")), e.status)
		if e.stream {
			var heard []string
			for _, h := range e.heard {
				if h = short(ids.ReplaceAllString(h, "")); h != "comment" {
					heard = append(heard, h)
				}
			}
			if n := len(heard); e.end != "" && n > 0 && heard[n-1] == "response" {
				e.end = "ended" // a client that has all it wanted may be the first to go
			}
			line += fmt.Sprintf(": %s (%s)", strings.Join(heard, ", "), e.end)
		}
		lines = append(lines, line+"\n")
	}
	return strings.Join(slices.Compact(lines), "") // how often it tries again depends on its time
}

// short is a summary without an id.
func short(summary string) string {
	summary = strings.TrimSpace(summary)
	if summary == strings.TrimSuffix(answerTo, " #") {
		return "response"
	}
	return summary
}

// versioned is the name of a client with its version.
func versioned(t *testing.T, name string) string {
	t.Helper()
	sdk := func(pkg string) string {
		var installed struct{ Version string }
		require.NoError(t, readJSON(filepath.Join(nodeDir, "node_modules", pkg, "package.json"), &installed))
		return "TypeScript SDK " + installed.Version
	}
	switch name {
	case "TypeScript SDK 1":
		return sdk("@modelcontextprotocol/sdk")
	case "TypeScript SDK 2 before 2026-07-28":
		return sdk("@modelcontextprotocol/client")
	case olderClient.name:
		return sdk(olderSDK)
	}
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Version}}", "github.com/modelcontextprotocol/go-sdk").Output()
	require.NoError(t, err)
	version := strings.TrimPrefix(strings.TrimSpace(string(out)), "v")
	name = strings.Replace(name, "Go SDK", "Go SDK "+version, 1)
	return strings.TrimSuffix(strings.Replace(name, "this module's client, in sessions", "this module's, with `client/legacy`", 1), " before 2026-07-28")
}
