package interop

import (
	"bytes"
	"context"
	"image/png"
	"os"
	"path/filepath"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server"
	"github.com/mcpsaga/mcpsaga/steps"
)

type lunchOrder struct {
	Office string `json:"office" jsonschema:"where to deliver"`
}

type lunchMeal struct {
	Dish string `json:"dish" title:"Dish" enum:"soup=Soup of the day|pasta=Pasta"`
}

// orderLunch is the tool of the README.
func orderLunch() saga.Definition {
	ask := &steps.Form[lunchMeal]{ID: "meal", Message: "What would you like?"}
	return saga.Flow[lunchOrder, string]{
		Info: saga.Info{Name: "order_lunch", Title: "Order lunch", Description: "Orders lunch.", Asks: []steps.Question{ask}},
		Run: func(r *saga.Run, in lunchOrder) (string, error) {
			meal, err := saga.Ask(r, ask)
			return "Ordered " + meal.Dish + " for " + in.Office + ".", err
		},
	}
}

// chat is what a host shows around the form, here: what its user has said.
const chat = `(() => {
	const style = document.createElement("style");
	style.textContent = "body { margin: 0; padding: 20px; font: 15px/1.45 system-ui, sans-serif; background: light-dark(#f5f5f8, #131316); color: light-dark(#1b1b1f, #eeeef0) }" +
		" p { width: fit-content; margin: 0 0 16px auto; padding: 8px 14px; border-radius: 14px; background: light-dark(#e3e3ea, #2f2f37) }" +
		" iframe { display: block; box-sizing: border-box; width: 100% !important; border: 1px solid light-dark(#d0d0d8, #44444c); border-radius: 10px }";
	document.head.append(style);
	document.body.append(Object.assign(document.createElement("p"), { textContent: "Order lunch for the Berlin office, please." }));
	return true;
})()`

// take takes a picture of a page in light and in dark, for the documents. SAGA_PICTURES=1 writes them; without, what is
// written is looked at: fonts are others on other machines.
func take(t *testing.T, page context.Context, name string, height int64, turn func(scheme string)) {
	t.Helper()
	const width, scale = 560, 1.5
	require.NoError(t, chromedp.Do(page, chromedp.EmulateViewport(width, height, chromedp.EmulateScale(scale))))
	for _, scheme := range []string{"light", "dark"} {
		require.NoError(t, chromedp.Do(page, chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
			_, err := cdp.Call(ctx, t, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
				Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
			})
			return err
		})))
		turn(scheme)
		shot, err := chromedp.Run(page, chromedp.CaptureScreenshot())
		require.NoError(t, err)
		file := filepath.Join("..", "docs", "pictures", name+"-"+scheme+".png")
		if os.Getenv("SAGA_PICTURES") != "" {
			require.NoError(t, os.WriteFile(file, shot, 0o644))
		}
		kept, err := os.ReadFile(file)
		require.NoError(t, err, "SAGA_PICTURES=1 makes the picture")
		assert.Less(t, len(kept), 60_000, file)
		for what, raw := range map[string][]byte{"taken": shot, "kept": kept} {
			size, err := png.DecodeConfig(bytes.NewReader(raw))
			require.NoError(t, err)
			assert.Equal(t, []int{width * scale, int(scale * float64(height))}, []int{size.Width, size.Height}, "%s, %s", file, what)
		}
	}
}

// The pictures of the form in the window of a host, in the documents.
func TestPictureOfTheWindow(t *testing.T) {
	t.Parallel()
	h := newAppHost(t)
	run[string](h, "connect", map[string]any{"url": appServer(t, server.Options{Tools: []saga.Definition{orderLunch()}}), "mode": "legacy"})
	_, err := chromedp.Run(h.page, chromedp.Evaluate[bool](chat))
	require.NoError(t, err)
	h.begin("call", map[string]any{"name": "order_lunch", "args": map[string]any{"office": "Berlin"}, "sandbox": h.sandbox})
	h.see("What would you like?")
	h.fill("Dish", "soup")
	h.do(`doc.activeElement.blur()`)
	take(t, h.page, "window", 344, func(scheme string) {
		_, err := chromedp.Run(h.page, chromedp.Evaluate[bool](`document.documentElement.style.colorScheme = "`+scheme+`"; host.context({ theme: "`+scheme+`" }), true`))
		require.NoError(t, err)
		until(h, h.app(), `frames[0].document.documentElement.dataset.theme === "`+scheme+`" && "turned"`)
	})
}

// The pictures of the page of a server, in the documents.
func TestPictureOfThePage(t *testing.T) {
	t.Parallel()
	b := &tab{t, needBrowser(t), ""}
	w, text := callWaiting(t, servePages(t, orderLunch()), "order_lunch", map[string]any{"office": "Berlin"})
	require.NotEmpty(t, w.URL, text)
	b.do(chromedp.Navigate(w.URL))
	require.True(t, eval[bool](b, `document.querySelector("time").textContent = "28 July 2026 at 12:00 UTC", document.querySelector("input[type=radio]").checked = true`))
	take(t, b.ctx, "page", 490, func(string) {})
}
