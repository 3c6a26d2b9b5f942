package interop

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/codec"
	"github.com/mcpsaga/mcpsaga/ledger"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server"
	"github.com/mcpsaga/mcpsaga/steps"
)

// tableForm has a field of every kind.
type tableForm struct {
	Name   string    `json:"name" title:"Name" jsonschema:"Under which the table is kept." minLength:"2"`
	Guests int       `json:"guests" title:"Guests" minimum:"1" maximum:"8"`
	Mail   string    `json:"mail,omitempty" title:"Mail" format:"email"`
	Day    string    `json:"day,omitempty" title:"Day" format:"date"`
	At     time.Time `json:"at,omitzero" title:"Time"`
	Room   string    `json:"room" title:"Room" enum:"in=Inside|out=Outside"`
	Menu   string    `json:"menu,omitempty" title:"Menu" enum:"a|b|c|d|e|f|g|h" default:"a"`
	Extras []string  `json:"extras,omitempty" title:"Extras" enum:"cake=A cake|song=A song|candle=A candle"`
	Dog    bool      `json:"dog" title:"Do you bring a dog?"`
	Wishes string    `json:"wishes,omitempty" title:"Wishes" maxLength:"1000"`
}

var (
	tableAsked = &steps.Form[tableForm]{ID: "table", Message: "Which table shall it be?"}
	billAsked  = &steps.Link{ID: "bill", Message: "Look at the prices first.", URL: "https://prices.example.com/today"}
	paidAsked  = &steps.Form[struct{}]{ID: "pay", Message: "Pay 10 € now?", Consent: true}
)

// tables keeps tables for those who say which, have seen the prices, and pay.
func tables() saga.Definition {
	pay := &saga.Effect[string, string]{
		Name: "pay", Do: func(_ context.Context, _ saga.Key, who string) (string, error) { return "paid by " + who, nil },
		Undo: func(context.Context, saga.Performed[string, string]) error { return nil },
	}
	return saga.Flow[struct{}, string]{
		Info: saga.Info{Name: "table", Title: "Book a table", Asks: []steps.Question{tableAsked, billAsked, paidAsked}, Effects: []saga.Declared{pay}},
		Run: func(r *saga.Run, _ struct{}) (string, error) {
			table, err := saga.Ask(r, tableAsked)
			if err != nil {
				return "", err
			}
			if err := r.AskAll(billAsked); err != nil {
				return "", err
			}
			if err := billAsked.Answer(r); err != nil {
				return "", err
			}
			if _, err := saga.Ask(r, paidAsked); err != nil {
				return "", err
			}
			paid, err := saga.Do(r, pay, table.Name)
			raw, _ := json.Marshal(table)
			return paid + " " + string(raw), err
		},
	}
}

// servePages serves the tools with pages, and returns a client that can be asked nothing.
func servePages(t *testing.T, tools ...saga.Definition) *mcp.ClientSession {
	t.Helper()
	return servePagesWith(t, func(*server.Options) {}, tools...).ClientSession
}

// paged is a client of a server with pages.
type paged struct {
	*mcp.ClientSession
	pages string // where they are
}

func servePagesWith(t *testing.T, change func(*server.Options), tools ...saga.Definition) paged {
	t.Helper()
	keys, err := codec.NewKeyset()
	require.NoError(t, err)
	store := ledger.NewMemory(ledger.MemoryOptions{})
	hs := httptest.NewUnstartedServer(nil)
	o := server.Options{
		Tools: tools, Keys: keys, Ledger: store, Logger: slog.New(slog.DiscardHandler), Title: "The inn",
		Questions: server.Questions{PageURL: "http://" + hs.Listener.Addr().String() + "/ask"},
	}
	change(&o)
	s, err := server.New(o)
	require.NoError(t, err)
	hs.Config.Handler = s.Handler()
	hs.Start()
	t.Cleanup(func() {
		s.Close()
		hs.Close()
		_ = store.Close()
	})
	c := mcp.NewClient(&mcp.Implementation{Name: "plain", Version: "1"}, nil)
	session, err := c.Connect(t.Context(), &mcp.StreamableClientTransport{Endpoint: hs.URL + server.Endpoint}, nil)
	require.NoError(t, err)
	t.Cleanup(func() { _ = session.Close() })
	return paged{session, o.Questions.PageURL}
}

// waiting is what a client reads of a call that waits.
type waiting struct {
	Status, URL, ResumeToken string
}

func callWaiting(t *testing.T, c *mcp.ClientSession, name string, args map[string]any) (w waiting, text string) {
	t.Helper()
	r, err := c.CallTool(t.Context(), &mcp.CallToolParams{Name: name, Arguments: args})
	require.NoError(t, err)
	for _, b := range r.Content {
		text += b.(*mcp.TextContent).Text
	}
	raw, err := json.Marshal(r.StructuredContent)
	require.NoError(t, err)
	_ = json.Unmarshal(raw, &w)
	return w, text
}

// tab is a tab of a browser in which nothing of a page's own runs.
type tab struct {
	t   *testing.T
	ctx context.Context
	axe string
}

func (b *tab) do(actions ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	require.NoError(b.t, chromedp.Do(b.ctx, actions...))
}

// scripts allows scripts, or not.
func (b *tab) scripts(allowed bool) chromedp.Action[chromedp.Void] {
	return chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: !allowed})
		return err
	})
}

// eval is what an expression is, in the page.
func eval[T any](b *tab, expression string) T {
	b.t.Helper()
	v, err := chromedp.Run(b.ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	require.NoError(b.t, err)
	return v
}

func (b *tab) shows(texts ...string) {
	b.t.Helper()
	body := eval[string](b, "document.body.innerText")
	for _, text := range texts {
		assert.Contains(b.t, body, text)
	}
}

// accessible checks the page that is shown, in light and in dark.
func (b *tab) accessible(what string) {
	b.t.Helper()
	b.do(b.scripts(true))
	backgrounds := map[string]string{}
	for _, scheme := range []string{"light", "dark"} {
		b.do(chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
			_, err := cdp.Call(ctx, t, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
				Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
			})
			return err
		}))
		backgrounds[scheme] = eval[string](b, "getComputedStyle(document.body).backgroundColor")
		_ = eval[bool](b, b.axe+"; true")
		found := eval[string](b, `axe.run(document, {resultTypes: ["violations", "incomplete"]}).then(r => JSON.stringify({
			passes: r.passes.length, violations: r.violations.map(v => v.id + ": " + v.nodes.map(n => n.html + " " + n.failureSummary).join("; ")),
		}))`)
		var result struct {
			Passes     int
			Violations []string
		}
		require.NoError(b.t, json.Unmarshal([]byte(found), &result))
		assert.Greater(b.t, result.Passes, 8, "%s, %s", what, scheme)
		assert.Empty(b.t, result.Violations, "%s, %s", what, scheme)
	}
	assert.NotEqual(b.t, backgrounds["light"], backgrounds["dark"], what)
	b.do(b.scripts(false))
}

// A client that declares nothing has its user answer on a page: what to fill in, a link, and a consent, in a browser in
// which no script runs, and with the keyboard alone where that is all there is to do. The pages are accessible in light and dark.
func TestPagesInChromium(t *testing.T) {
	t.Parallel()
	needNode(t)
	axe, err := os.ReadFile(filepath.Join(nodeDir, "node_modules", "axe-core", "axe.min.js"))
	require.NoError(t, err)
	b := &tab{t, needBrowser(t), string(axe)}
	c := servePages(t, tables())
	w, text := callWaiting(t, c, "table", map[string]any{})
	require.Equal(t, "waiting", w.Status, text)
	require.Contains(t, text, w.URL)

	b.do(b.scripts(false), chromedp.Navigate(w.URL))
	b.shows("Book a table asks you", "The inn", "Which table shall it be?")
	b.accessible("a form")

	// What does not fit is said where it is, and the rest stays.
	b.do(chromedp.SendKeys(chromedp.CSS("#f0"), "A"), chromedp.SendKeys(chromedp.CSS("#f1"), "nine"), chromedp.SendKeys(chromedp.CSS("#f9"), "A table\nby the window"),
		chromedp.Click(chromedp.CSS(`button[value=accept]`)), chromedp.WaitVisible(chromedp.CSS(".alert")))
	b.shows("must be at least 2 characters long", "must be a whole number", "is required")
	assert.Equal(t, "Error: Book a table asks you", eval[string](b, "document.title"))
	assert.Equal(t, "A table\nby the window", eval[string](b, "document.querySelector('#f9').value"))
	b.accessible("a form with errors")

	b.do(
		chromedp.Clear(chromedp.CSS("#f0")), chromedp.SendKeys(chromedp.CSS("#f0"), "Ann"), chromedp.Clear(chromedp.CSS("#f1")), chromedp.SendKeys(chromedp.CSS("#f1"), "3"),
		chromedp.SendKeys(chromedp.CSS("#f2"), "ann@example.com"), chromedp.SendKeys(chromedp.CSS("#f3"), "12312026"),
		chromedp.Click(chromedp.CSS(`label[for="f5-1"]`)), chromedp.SendKeys(chromedp.CSS("#f6"), "g"),
		chromedp.Click(chromedp.CSS(`label[for="f7-0"]`)), chromedp.Click(chromedp.CSS(`label[for="f7-2"]`)), chromedp.Click(chromedp.CSS(`label[for="f8-1"]`)),
		chromedp.Click(chromedp.CSS(`button[value=accept]`)), chromedp.WaitVisible(chromedp.CSS(`a[target=_blank]`)),
	)
	b.shows("Your answer was taken.", "Look at the prices first.", "https://prices.example.com/today")
	b.accessible("a link")
	b.do(chromedp.Click(chromedp.CSS(`button[value=accept]`)), chromedp.WaitNotPresent(chromedp.CSS(`a[target=_blank]`)))
	b.shows("Pay 10 € now?", "allows the tool to act")
	b.accessible("a consent")

	// Another look at the call says the same link. To reload the page sends nothing again.
	again, _ := callWaiting(t, c, "table", map[string]any{"resumeToken": w.ResumeToken})
	assert.Equal(t, w.URL, again.URL)
	b.do(chromedp.Reload())
	b.shows("Pay 10 € now?")
	b.do(chromedp.KeyEvent("\t"), chromedp.KeyEvent("\r"), chromedp.WaitNotPresent(chromedp.CSS(`form`)))
	b.shows("Your answer was taken.", "The tool has completed.")
	b.accessible("an end")
	_, text = callWaiting(t, c, "table", map[string]any{"resumeToken": w.ResumeToken})
	assert.Equal(t, `paid by Ann {"name":"Ann","guests":3,"mail":"ann@example.com","day":"2026-12-31","room":"out","menu":"g","extras":["cake","candle"],"dog":false,"wishes":"A table\nby the window"}`, text)

	b.do(chromedp.Navigate(w.URL[:len(w.URL)-1]))
	b.shows("There is nothing at this link")
	b.accessible("no page")
}

// Another person than the caller finds a question in a list, and answers it with the keyboard. These pages are accessible as well.
func TestPagesOfOthersInChromium(t *testing.T) {
	t.Parallel()
	needNode(t)
	axe, err := os.ReadFile(filepath.Join(nodeDir, "node_modules", "axe-core", "axe.min.js"))
	require.NoError(t, err)
	b := &tab{t, needBrowser(t), string(axe)}
	approve := &steps.Form[tableForm]{ID: "approve", Message: "Pay 10 €?", By: steps.By{"fay"}, Within: time.Hour}
	tool := saga.Flow[struct{}, string]{
		Info: saga.Info{Name: "pay", Title: "Pay a bill", Asks: []steps.Question{approve}, Tasks: saga.Tasks{Mode: saga.TasksForbidden}},
		Run: func(r *saga.Run, _ struct{}) (string, error) {
			got, err := saga.Ask(r, approve)
			who, _ := approve.AnsweredBy(r)
			return got.Name + " by " + who, err
		},
	}
	signedIn := func(o *server.Options) {
		o.Authenticate = func(r *http.Request) (saga.Caller, error) {
			if c, err := r.Cookie("who"); err == nil {
				return saga.Caller{Subject: c.Value}, nil
			}
			return saga.Caller{Subject: "ann"}, nil
		}
	}
	c := servePagesWith(t, signedIn, tool)
	ended := make(chan string, 1)
	go func() {
		_, text := callWaiting(t, c.ClientSession, "pay", map[string]any{})
		ended <- text
	}()
	list := c.pages + "/waiting"
	b.do(b.scripts(false), chromedp.Navigate(list))
	b.shows("Nothing waits for you here.")
	b.accessible("an empty list")
	b.do(chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, network.SetCookie, network.SetCookieParams{Name: "who", Value: "fay", URL: c.pages})
		return err
	}))
	require.Eventually(t, func() bool {
		b.do(chromedp.Navigate(list))
		return strings.Contains(eval[string](b, "document.body.innerText"), "Pay a bill for ann")
	}, time.Minute, 100*time.Millisecond)
	b.shows("Waiting for your answer", "Pay 10 €?", "It can be answered until")
	b.accessible("a list")
	b.do(chromedp.Click(chromedp.CSS("ul.waiting a")), chromedp.WaitVisible(chromedp.CSS("form")))
	b.shows("Pay a bill asks for your answer", "for ann", "by one person")
	b.accessible("a question for others")
	link := eval[string](b, "location.href")
	b.do(chromedp.Click(chromedp.CSS(`button[value=accept]`)), chromedp.WaitVisible(chromedp.CSS(".alert")))
	b.accessible("a question for others with errors")
	b.do(
		chromedp.SendKeys(chromedp.CSS("#f0"), "Ann"), chromedp.SendKeys(chromedp.CSS("#f1"), "3"), chromedp.Click(chromedp.CSS(`label[for="f5-1"]`)),
		chromedp.Click(chromedp.CSS(`label[for="f8-1"]`)), chromedp.Click(chromedp.CSS(`button[value=accept]`)), chromedp.WaitNotPresent(chromedp.CSS("form")),
	)
	b.shows("Your answer was taken.", "It was agreed to by you")
	b.accessible("an answer that was taken")
	assert.Equal(t, "Ann by fay", <-ended)
	b.do(chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, network.SetCookie, network.SetCookieParams{Name: "who", Value: "eve", URL: c.pages})
		return err
	}), chromedp.Navigate(link))
	b.shows("This is not for you to answer")
	b.accessible("a question for others than who opens it")
}

// A page is not shown within a page of another site, and a form there does nothing.
func TestPagesAreNotFramed(t *testing.T) {
	t.Parallel()
	b := &tab{t, needBrowser(t), ""}
	c := servePages(t, tables())
	w, text := callWaiting(t, c, "table", map[string]any{})
	require.NotEmpty(t, w.URL, text)
	b.do(chromedp.Navigate(w.URL))
	token := eval[string](b, `document.querySelector("input[name=token]").value`)
	b.do(chromedp.Navigate("data:text/html,<iframe src=\""+w.URL+"\"></iframe>"), chromedp.WaitReady(chromedp.CSS("iframe")))
	assert.Equal(t, "", eval[string](b, `try { document.querySelector("iframe").contentDocument?.body.innerText ?? "" } catch (e) { "" }`))
	b.do(chromedp.Navigate(fmt.Sprintf(`data:text/html,<form method=post action="%s"><input name=question value=table><input name=token value="%s"><button name=do value=decline>x</button></form>`, w.URL, token)),
		chromedp.Click(chromedp.CSS("button")), chromedp.WaitVisible(chromedp.CSS(".alert")))
	b.shows("This was not sent from the page itself, so nothing was done.")
	b.do(chromedp.Navigate(w.URL))
	b.shows("Which table shall it be?")
}
