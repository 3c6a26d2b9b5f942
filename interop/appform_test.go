package interop

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// appPage is the page of the form, as the server gives it.
func appPage(t *testing.T) string {
	dir := "../server/internal/apps"
	page, err := os.ReadFile(filepath.Join(dir, "form.html"))
	require.NoError(t, err)
	script, err := os.ReadFile(filepath.Join(dir, "form.js"))
	require.NoError(t, err)
	return strings.Replace(string(page), "{{script}}", string(script), 1)
}

// serves has a function of the test's answer what the form asks of a server.
func (h *appHost) serves(reply func(args map[string]any) string) {
	h.Helper()
	require.NoError(h, chromedp.Do(h.page, chromedp.ExposeFunc("ontool", func(_ context.Context, params map[string]any) (string, error) {
		return reply(params["arguments"].(map[string]any)), nil
	})))
	_, err := chromedp.Run(h.page, chromedp.Evaluate[bool](`const mount = host.mount; host.mount = p => mount({ ...p, ontool: async q => JSON.parse(await ontool(q)) }), true`))
	require.NoError(h, err)
}

// What the form asked before it knew its call takes nothing away that came of the call, however late it is answered.
func TestAppFormWhoseRepliesOvertakeEachOther(t *testing.T) {
	t.Parallel()
	h := newAppHost(t)
	const handle = "abcdefghijklmnopqrstuv"
	late, answered := make(chan string), make(chan any)
	h.serves(func(args map[string]any) string {
		switch {
		case args["answers"] != nil:
			return `{"content":[],"structuredContent":{"status":"completed","resumeToken":"` + handle + `","tool":"trip","held":false,"sentence":"Call trip again with resumeToken: ` + handle + `"}}`
		case args["resumeToken"] == nil:
			defer func() { answered <- nil }()
			return <-late
		}
		return `{"content":[],"structuredContent":{"status":"input_required","resumeToken":"` + handle + `","held":false,"questions":[{"id":"c","mode":"form","message":"Sure?","schema":{"type":"object","properties":{}}}]}}`
	})
	run[any](h, "mount", map[string]any{"html": appPage(t), "sandbox": h.sandbox})
	_, err := chromedp.Run(h.page, chromedp.Evaluate[bool](`host.result({ content: [{ type: "text", text: "resumeToken: `+handle+`" }] }), true`))
	require.NoError(t, err)
	h.see("Sure?")
	late <- `{"content":[],"structuredContent":{"status":"none"}}`
	<-answered
	settled[any](h)
	h.press("Send")
	h.see("Done.")
}

// The form is tried with a server of the test's, which says what is asked.
func TestAppForm(t *testing.T) {
	t.Parallel()
	h := newAppHost(t)
	const handle = "abcdefghijklmnopqrstuv"
	calls := make(chan map[string]any, 10)
	replies := make(chan string, 10)
	h.serves(func(args map[string]any) string {
		calls <- args
		return <-replies
	})

	h.begin("mount", map[string]any{"html": appPage(t), "sandbox": h.sandbox})
	first := <-calls
	assert.NotEmpty(t, first["frame"])
	assert.NotContains(t, first, "resumeToken")
	replies <- `{"content":[],"structuredContent":{"status":"input_required","resumeToken":"` + handle + `","title":"Trip asks","held":true,"questions":[{"id":"a","mode":"form","message":"Where to?","schema":{"type":"object","properties":{
		"city":{"type":"string","title":"City","description":"The nearest one","minLength":2},
		"mail":{"type":"string","title":"Mail","format":"email"},
		"nights":{"type":"integer","title":"Nights","minimum":1,"maximum":9},
		"price":{"type":"number","title":"Price","default":1.5},
		"class":{"type":"string","title":"Class","oneOf":[{"const":"eco","title":"Economy"},{"const":"biz","title":"Business"}]},
		"legs":{"type":"array","title":"Legs","minItems":1,"items":{"type":"string","enum":["out","back"]}},
		"day":{"type":"string","title":"Day","format":"date"},
		"note":{"type":"string","title":"Note","maxLength":500},
		"pets":{"type":"boolean","title":"Pets","default":true}},"required":["city","nights","class","legs"]}}]}}`
	h.see("Where to?")
	settled[any](h)
	h.accessible()
	h.press("Send")
	h.see("Please fill this in.")
	h.see("Please choose at least 1.")
	assert.Equal(t, "City", h.do(`return doc.activeElement.labels[0].firstChild.textContent`), "the first wrong field has the focus")
	h.accessible()
	h.fill("City", "Rome")
	h.fill("Nights", "12")
	h.fill("Class", "biz")
	h.tick("out")
	h.press("Send")
	until(h, h.app(), `frames[0].document.querySelectorAll("[aria-invalid]").length === 1 && "one"`)
	h.fill("Nights", "3")
	h.press("Send")
	answer := <-calls
	assert.Equal(t, handle, answer["resumeToken"])
	assert.Equal(t, map[string]any{"a": map[string]any{"action": "accept", "content": map[string]any{
		"city": "Rome", "nights": 3.0, "price": 1.5, "class": "biz", "legs": []any{"out"}, "pets": true,
	}}}, answer["answers"])

	t.Log("what was entered is still there when the same is asked again, and the next question is beside it")
	replies <- `{"content":[{"type":"text","text":"{\"status\":\"input_required\",\"resumeToken\":\"` + handle + `\",\"held\":true,\"questions\":[{\"id\":\"u\",\"mode\":\"url\",\"message\":\"Please pay.\",\"url\":\"https://pay.example/1\"}]}"}]}`
	h.see("https://pay.example/1")
	h.accessible()
	h.press("Open the page")
	assert.Equal(t, map[string]any{"u": map[string]any{"action": "accept"}}, (<-calls)["answers"])
	assert.Contains(t, h.log(), "opens https://pay.example/1")

	t.Log("the host goes dark; the call is not held any more; the tool ends")
	_, err := chromedp.Run(h.page, chromedp.Evaluate[bool](`host.context({ theme: "dark", styles: { variables: { "--font-sans": "serif" } } }), true`))
	require.NoError(t, err)
	replies <- `{"content":[],"structuredContent":{"status":"input_required","resumeToken":"` + handle + `","held":false,"questions":[{"id":"c","mode":"form","message":"<b>Sure?</b>","schema":{"type":"object","properties":{}}}]}}`
	h.see("<b>Sure?</b>")
	assert.Equal(t, "dark", h.do(`return doc.documentElement.dataset.theme`))
	h.accessible()
	h.press("Decline")
	assert.Equal(t, map[string]any{"c": map[string]any{"action": "decline"}}, (<-calls)["answers"])
	replies <- `{"content":[],"structuredContent":{"status":"completed","resumeToken":"` + handle + `","tool":"trip","held":false,"sentence":"Call trip again with resumeToken: ` + handle + `"}}`
	h.see("Done.")
	h.see("Call trip again")
	h.accessible()
	until(h, h.page, `host.log.join().includes("message: ") && host.log.join().includes("context: Call trip")`)
	assert.Empty(t, calls)
	assert.Equal(t, 1, strings.Count(h.log(), "message: Call trip again with resumeToken: "+handle))
	run[any](h, "teardown", nil)
}

// The first question may be of any kind, what is filled in beforehand can be sent as it is, a number is sent as it was entered or
// not at all, and what one question was answered stays out of another that looks the same.
func TestAppFormOfEachKind(t *testing.T) {
	t.Parallel()
	h := newAppHost(t)
	const handle = "abcdefghijklmnopqrstuv"
	calls := make(chan map[string]any, 10)
	replies := make(chan string, 10)
	asks := func(question string) {
		replies <- `{"content":[],"structuredContent":{"status":"input_required","resumeToken":"` + handle + `","held":true,"questions":[` + question + `]}}`
	}
	h.serves(func(args map[string]any) string {
		if args["answers"] != nil {
			calls <- args["answers"].(map[string]any)
		}
		return <-replies
	})
	asks(`{"id":"pay","mode":"url","message":"Please pay.","url":"https://pay.example/1"}`)
	h.begin("mount", map[string]any{"html": appPage(t), "sandbox": h.sandbox})
	h.see("https://pay.example/1")
	h.see("Please answer.")
	h.press("I have opened it")
	assert.Contains(t, <-calls, "pay")

	asks(`{"id":"when","mode":"form","message":"When?","schema":{"type":"object","properties":{
		"at":{"type":"string","title":"At","format":"date-time","default":"2026-07-28T15:04:05Z"},
		"number":{"type":"integer","title":"Number"},
		"sure":{"type":"boolean","title":"Sure"}},"required":["at"]}}`)
	h.see("When?")
	h.fill("Number", "9007199254740993")
	h.tick("Sure")
	h.press("Send")
	h.see("too large to be sent exactly")
	h.fill("Number", "9007199254740991")
	h.press("Send")
	assert.Equal(t, map[string]any{"when": map[string]any{"action": "accept", "content": map[string]any{
		"at": "2026-07-28T15:04:05.000Z", "number": 9007199254740991.0, "sure": true,
	}}}, <-calls)

	sure := `","schema":{"type":"object","properties":{"sure":{"type":"boolean","title":"Sure"}}}}`
	ticked := func() string { return h.do(`return doc.querySelector("input").checked`) }
	asks(`{"id":"first","mode":"form","message":"The first?` + sure)
	h.see("The first?")
	h.tick("Sure")
	h.press("Send")
	<-calls
	asks(`{"id":"first~2","mode":"form","message":"Once more?` + sure)
	h.see("Once more?")
	assert.Equal(t, "true", ticked())
	h.press("Send")
	<-calls
	asks(`{"id":"second","mode":"form","message":"The second?` + sure)
	h.see("The second?")
	assert.Equal(t, "false", ticked())
	run[any](h, "teardown", nil)
}

// A call whose server has died has no result. The form brings the model back when that would not hold the call any more.
func TestAppFormOfDeadServers(t *testing.T) {
	t.Parallel()
	h := newAppHost(t)
	const handle = "abcdefghijklmnopqrstuv"
	var held atomic.Bool
	held.Store(true)
	h.serves(func(map[string]any) string {
		return fmt.Sprintf(`{"content":[],"structuredContent":{"status":"completed","resumeToken":%q,"tool":"trip","held":%t,"sentence":"Call trip again with resumeToken: %[1]s"}}`, handle, held.Load())
	})
	h.begin("mount", map[string]any{"html": appPage(t), "sandbox": h.sandbox})
	h.see("Call trip again")
	assert.NotContains(t, h.log(), "message: ")
	held.Store(false)
	until(h, h.page, `host.log.join().includes("message: Call trip again") && "told"`)
	run[any](h, "teardown", nil)
}
