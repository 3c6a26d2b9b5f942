package interop

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// What the tool stay asks.
const (
	askedCity   = "Where do you want to stay?"
	askedNights = "For how many nights?"
	askedSure   = "Shall it be booked?"
)

// way is how a client finishes the tool stay, in a revision of MCP.
type way struct {
	play func(s *inn, version string)
	// steps are those between which it does something.
	steps []string
	// known: the server knows its user in MCP 2026-07-28. alone: it needs a browser, of which there is one at a time.
	known, alone bool
}

// ways are all hosts that there are: those that ask, show forms, and do nothing of that.
func ways(version string) map[string]way {
	list := map[string]way{}
	for _, c := range contenders() {
		if c.protocol == version && !strings.HasPrefix(c.name, "this module's") {
			list[c.name] = way{play: c.asks, steps: []string{askedCity, askedNights, askedSure}}
		}
	}
	steps := []string{"call", askedCity, askedNights, askedSure, "end"}
	for name, mood := range map[string]map[string]bool{
		"a host that holds the call": {}, "a host with the result at once": {"late": true},
		"a host that withholds tool-input": {"withheld": true}, "a host that strips _meta": {"late": true, "stripped": true},
	} {
		list[name] = way{play: shows(mood), steps: steps, known: !mood["late"], alone: true}
	}
	list["a page"] = way{play: opensPage, steps: steps, alone: true}
	list["a model that relays"] = way{play: relays, steps: steps, alone: true}
	return list
}

// TestEveryHostIsAsked finishes one tool, which asks three questions, one of them a consent before an effect, in hosts of all kinds, in both
// eras of MCP, on one server and on three, of which all are killed between any two steps. Nightly, they are also killed at one step alone.
func TestEveryHostIsAsked(t *testing.T) {
	onlyIfWanted(t, "starts servers and browsers again and again")
	t.Parallel()
	for _, version := range []string{"2026-07-28", "2025-11-25"} {
		for name, w := range ways(version) {
			deaths := map[string]func(string) bool{
				"one server":                           func(string) bool { return false },
				"three servers that die at every step": func(string) bool { return true },
			}
			for _, step := range w.steps {
				if nightly {
					deaths["three servers that die: "+step] = func(now string) bool { return now == step }
				}
			}
			for death, dies := range deaths {
				t.Run(version+"/"+name+"/"+death, func(t *testing.T) {
					if !w.alone {
						t.Parallel()
					}
					servers := 3
					if death == "one server" {
						servers = 1
					}
					s := newInn(t, servers, w.known && version == "2026-07-28", dies)
					w.play(s, version)
					s.booked()
				})
			}
		}
	}
}

// asks is a client that asks its user itself.
func (c contender) asks(s *inn, version string) {
	c.available(s.T)
	between := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		question, _ := io.ReadAll(r.Body)
		s.step(string(question))
	}))
	defer between.Close()
	end := c.play(s.T, target{URL: s.url}, []call{{
		Tool: "stay", Arguments: map[string]any{"who": "Ann"}, Between: between.URL, Again: true, Timeout: 60_000,
		Elicit: []answer{accept(map[string]any{"city": "Rome"}), accept(map[string]any{"nights": 3}), accept(map[string]any{"sure": true})},
	}})[0]
	assert.Empty(s, end.Error)
	assert.Equal(s, stayBooked, end.text())
	assert.Equal(s, version, end.Protocol)
}

// shows is a host with a form, whose user goes on where the form says so, if the call has not ended with the result.
func shows(mood map[string]bool) func(s *inn, version string) {
	return func(s *inn, version string) {
		h := newAppHost(s.T)
		mode := version
		if version == "2025-11-25" {
			mode = "legacy"
		}
		assert.Equal(s, version, run[string](h, "connect", map[string]any{"url": s.url, "mode": mode}))
		s.step("call")
		h.stays(mood, s.step)
		if !mood["late"] && !slices.ContainsFunc([]string{askedCity, askedNights, askedSure, "Done."}, s.dies) {
			settled[any](h) // the call that was held
			assert.Contains(s, h.log(), "result: "+stayBooked)
			return
		}
		s.step("end")
		// Any server may have the result of the call that was held, if the host comes back for it.
		result := func() bool { return strings.Contains(h.log(), "result: "+stayBooked) }
		says := func() bool {
			_, err := chromedp.Run(h.app(), chromedp.Poll[any](`frames[0].document.querySelector("code") !== null`, chromedp.WithPollingTimeout(time.Second)))
			return err == nil
		}
		require.Eventually(s, func() bool { return result() || says() }, 70*time.Second, 50*time.Millisecond)
		if !result() {
			h.again()
		}
	}
}

// unasked is a client that declares nothing. Each call of it is a step.
type unasked struct {
	*inn
	session *mcp.ClientSession
}

func newUnasked(s *inn, version string) *unasked {
	client := mcp.NewClient(&mcp.Implementation{Name: "plain", Version: "1"}, nil)
	session, err := client.Connect(s.Context(), &mcp.StreamableClientTransport{Endpoint: s.url}, &mcp.ClientSessionOptions{ProtocolVersion: version})
	require.NoError(s, err)
	s.Cleanup(func() { _ = session.Close() })
	assert.Equal(s, version, session.InitializeResult().ProtocolVersion)
	s.step("call")
	return &unasked{s, session}
}

func (u *unasked) call(args map[string]any) string {
	u.Helper()
	args["who"] = "Ann"
	_, text := callWaiting(u.T, u.session, "stay", args)
	return text
}

var (
	pageText     = regexp.MustCompile(`open this link and answer there: (\S+)`)
	questionText = regexp.MustCompile(`(?m)^Question ("[^"]+"): ("[^"]+")$`)
)

// onPage is an answer on a page: to a question, in a field to fill in with a text, or on a label to click on.
type onPage struct{ question, id, field, text string }

// answers gives answers on a page, one after the other.
func (s *inn) answers(page string, list ...onPage) {
	s.Helper()
	b := &tab{s.T, needBrowser(s.T), ""}
	b.do(b.scripts(false))
	sees := func(text string) {
		s.Helper()
		for end := time.Now().Add(time.Minute); ; time.Sleep(100 * time.Millisecond) { //sagavet:ignore a page is looked at again
			b.do(chromedp.Navigate(page))
			body := eval[string](b, "document.body.innerText")
			if strings.Contains(body, text) {
				return
			}
			require.Less(s, time.Now(), end, "%s: %s", text, body)
		}
	}
	for _, a := range list {
		sees(a.question)
		s.step(a.question)
		if a.text == "" {
			b.do(chromedp.Click(chromedp.CSS(a.field)))
		} else {
			b.do(chromedp.SendKeys(chromedp.CSS(a.field), a.text))
		}
		b.do(chromedp.Click(chromedp.CSS(`button[value=accept]`)), chromedp.WaitNotPresent(chromedp.CSS(`input[name=question][value=`+a.id+`]`)))
	}
	sees("The tool has completed.")
}

var bookIt = onPage{askedSure, "sure", `label[for="f0-0"]`, ""}

// opensPage is a client that declares nothing, whose user answers on the page.
func opensPage(s *inn, version string) {
	u := newUnasked(s, version)
	text := u.call(map[string]any{})
	page, token := pageText.FindStringSubmatch(text), handleText.FindStringSubmatch(text)
	require.NotNil(s, page, text)
	s.answers(page[1], onPage{askedCity, "city", "#f0", "Rome"}, onPage{askedNights, "nights", "#f0", "3"}, bookIt)
	s.step("end")
	assert.Equal(s, stayBooked, u.call(map[string]any{"resumeToken": token[1]}))
}

// relays is a client that declares nothing, with a model that does only what the text of a result says, but for one answer
// that it has no right to give.
func relays(s *inn, version string) {
	u := newUnasked(s, version)
	user := map[string]any{askedCity: map[string]any{"city": "Rome"}, askedNights: map[string]any{"nights": 3}}
	text := u.call(map[string]any{})
	var token string
	for {
		token = handleText.FindStringSubmatch(text)[1]
		asked := questionText.FindStringSubmatch(text)
		if asked == nil {
			break
		}
		var id, message string
		require.NoError(s, json.Unmarshal([]byte(asked[1]), &id))
		require.NoError(s, json.Unmarshal([]byte(asked[2]), &message))
		require.NotNil(s, user[message], message)
		s.step(message)
		text = u.call(map[string]any{"resumeToken": token, "answers": map[string]any{id: user[message]}})
	}
	assert.Contains(s, text, `Only the user can answer question "sure" there`)
	refused := u.call(map[string]any{"resumeToken": token, "answers": map[string]any{"sure": map[string]any{"sure": true}}})
	assert.Contains(s, refused, `No answer was taken: "sure" must be answered by a person, not by a model.`)
	s.answers(pageText.FindStringSubmatch(refused)[1], bookIt)
	s.step("end")
	assert.Equal(s, stayBooked, u.call(map[string]any{"resumeToken": token}))
}
