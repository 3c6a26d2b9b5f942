package program

import (
	"cmp"
	"context"
	"crypto/rand"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"maps"
	"net"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/mcpsaga/mcpsaga/client"
	"github.com/mcpsaga/mcpsaga/cmd/program/internal/plain"
	"github.com/mcpsaga/mcpsaga/cmd/program/internal/term"
)

// The extension by which hosts show apps of servers in their windows (MCP Apps, 2026-01-26), and the type of these.
const (
	appsExtension = "io.modelcontextprotocol/ui"
	appType       = "text/html;profile=mcp-app"
)

// windowPolicy is what the page of the window itself may do.
const windowPolicy = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; connect-src 'self'; frame-src 'self'; frame-ancestors 'none'; base-uri 'none'"

// appPolicy is what an app may do that asks for nothing (MCP Apps, UI resources). Its frame has no origin, and so nothing of
// the window's own.
const appPolicy = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:; media-src data:; form-action 'none'; sandbox allow-scripts allow-forms"

//go:embed window.html
var windowPage string

var windowTemplate = template.Must(template.New("window").Parse(windowPage))

// lastLook is how long a window stays when the call is over, for its form to learn of that.
const lastLook = 2 * time.Second

// window is the window of a host: a page for a browser of this machine, which shows the app of a tool.
type window struct {
	*client.Client
	tool   client.Tool
	tools  []client.Tool
	given  map[string]any // the arguments
	app    string         // its HTML
	opened func()
	said   chan string // what the app tells the model

	mu      sync.Mutex
	results []json.RawMessage // of the calls of the model
}

// appOf is what a tool says of its app.
func appOf(t client.Tool) (ui struct {
	ResourceURI string   `json:"resourceUri"`
	Visibility  []string `json:"visibility"`
}) {
	_ = json.Unmarshal(t.Meta["ui"], &ui) // what is not understood is none
	return ui
}

// newWindow returns the window for a tool; nil if the tool has no app.
func newWindow(ctx context.Context, connection *client.Client, name string, given map[string]any) (*window, error) {
	w := &window{Client: connection, given: given, said: make(chan string, 1)}
	var err error
	if w.tools, err = connection.Tools(ctx); err != nil {
		return nil, err
	}
	i := slices.IndexFunc(w.tools, func(t client.Tool) bool { return t.Name == name })
	if i < 0 || appOf(w.tools[i]).ResourceURI == "" {
		return nil, nil
	}
	w.tool = w.tools[i]
	page, err := connection.ReadResource(ctx, appOf(w.tool).ResourceURI, client.Handlers{})
	if err != nil {
		return nil, err
	}
	if len(page.Contents) != 1 || page.Contents[0].MIMEType != appType {
		return nil, fmt.Errorf("the server's resource %s is not of the type %s, so no host would show it", plain.Line(appOf(w.tool).ResourceURI), appType)
	}
	w.app = cmp.Or(page.Contents[0].Text, string(page.Contents[0].Blob))
	return w, nil
}

// callInWindow calls a tool as a host does that shows its app in a window, and plays the part of the model: when the app
// says that the call can go on, it calls again.
func (p *program) callInWindow(ctx context.Context, connection *client.Client, tool string, given map[string]any, handlers client.Handlers) (*client.Result, error) {
	w, err := newWindow(ctx, connection, tool, given)
	if err != nil {
		return nil, p.serverFailed(err)
	}
	if w == nil {
		p.remark("%s has no app: a host that cannot ask shows nothing of it", plain.Line(tool))
		return connection.Call(ctx, tool, given, handlers)
	}
	opened := make(chan struct{})
	w.opened = sync.OnceFunc(func() { close(opened) })
	address, stop, err := w.serve()
	if err != nil {
		return nil, failed(err)
	}
	defer stop()
	p.remark("a host shows %s in its window. Open that in a browser:\n  %s", plain.Line(appOf(w.tool).ResourceURI), address)
	select {
	case <-opened:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	p.remark("the model has called %s, and the call is held", plain.Line(tool))
	for {
		result, err := connection.Call(ctx, tool, given, handlers)
		if err != nil {
			return nil, err
		}
		w.mu.Lock()
		w.results = append(w.results, result.Raw)
		w.mu.Unlock()
		if !waits(result) {
			select {
			case <-time.After(lastLook):
			case <-ctx.Done():
			}
			return result, nil
		}
		p.bar.Clear()
		p.remark("the call has returned, and waits. The model reads:\n%s", plain.Text(term.Blocks(result.Content)))
		token, err := p.awaitToken(ctx, w)
		if err != nil {
			return nil, err
		}
		given = maps.Clone(given)
		if given == nil {
			given = make(map[string]any)
		}
		given["resumeToken"] = token
	}
}

// awaitToken waits until the app has the model call again, and returns the token with which it is to.
func (p *program) awaitToken(ctx context.Context, w *window) (token string, err error) {
	for {
		select {
		case text := <-w.said:
			p.remark("the app tells the model: %s", plain.Short(text, 1000))
			if found := resumed.FindStringSubmatch(text); found != nil {
				return found[1], nil
			}
		case <-ctx.Done():
			return "", context.Cause(ctx)
		}
	}
}

// resumed finds in what an app says to the model how to go on.
var resumed = regexp.MustCompile(`resumeToken: ([\w-]+)`)

// waits reports whether a call has returned only to be made again.
func waits(r *client.Result) bool {
	var is struct{ Status, ResumeToken string }
	return json.Unmarshal(r.StructuredContent, &is) == nil && is.ResumeToken != "" && (is.Status == "waiting" || is.Status == "working")
}

// serve serves the window at an address that cannot be guessed, until it is stopped.
func (w *window) serve() (address string, stop func(), err error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	var page strings.Builder
	if err = windowTemplate.Execute(&page, map[string]any{"Tool": w.tool, "Arguments": w.given}); err != nil {
		return "", nil, err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(rw http.ResponseWriter, _ *http.Request) {
		show(rw, windowPolicy, page.String())
		w.opened()
	})
	mux.HandleFunc("GET /app", func(rw http.ResponseWriter, _ *http.Request) { show(rw, appPolicy, w.app) })
	mux.HandleFunc("GET /results", func(rw http.ResponseWriter, _ *http.Request) {
		w.mu.Lock()
		defer w.mu.Unlock()
		_ = json.NewEncoder(rw).Encode(w.results)
	})
	mux.HandleFunc("POST /call", w.call)
	prefix := "/" + rand.Text()
	hs := &http.Server{Handler: http.StripPrefix(prefix, mux), ReadHeaderTimeout: time.Minute}
	go func() { _ = hs.Serve(listener) }()
	return "http://" + listener.Addr().String() + prefix + "/", func() { _ = hs.Close() }, nil
}

func show(rw http.ResponseWriter, policy, html string) {
	rw.Header().Set("Content-Type", "text/html; charset=utf-8")
	rw.Header().Set("Content-Security-Policy", policy)
	rw.Header().Set("Referrer-Policy", "no-referrer")
	_, _ = rw.Write([]byte(html))
}

// call takes what the app tells the model, or calls a tool for it, if it is one that apps are to see.
func (w *window) call(rw http.ResponseWriter, r *http.Request) {
	var q struct {
		Name, Message string
		Arguments     json.RawMessage
	}
	err := json.NewDecoder(http.MaxBytesReader(rw, r.Body, 1<<20)).Decode(&q)
	result := &client.Result{Raw: json.RawMessage("{}")}
	switch {
	case err != nil:
	case q.Message != "":
		select {
		case w.said <- q.Message:
		case <-r.Context().Done():
		}
	case slices.ContainsFunc(w.tools, func(t client.Tool) bool {
		sees := appOf(t).Visibility
		return t.Name == q.Name && (sees == nil || slices.Contains(sees, "app"))
	}):
		result, err = w.Call(r.Context(), q.Name, q.Arguments, client.Handlers{})
		if stopped, ok := errors.AsType[*client.InterruptedError](err); ok {
			err = stopped.Err
		}
	default:
		err = errors.New("an app may not call that tool")
	}
	if err != nil {
		http.Error(rw, err.Error(), http.StatusBadGateway)
		return
	}
	_, _ = rw.Write(result.Raw)
}
