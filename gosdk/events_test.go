package gosdk_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/gosdk"
	"github.com/mcpsaga/mcpsaga/internal/jsontest"
	"github.com/mcpsaga/mcpsaga/ledger"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/steps"
)

type payment struct {
	Cents int `json:"cents" minimum:"1"`
}

// newTill returns tools that wait for a payment, by a handle that they give away and by a key.
func newTill() (handles chan string, tools []saga.Definition) {
	handles = make(chan string, 10)
	paid := &steps.Event[payment]{ID: "paid", Message: "Waiting for the payment.", Within: time.Hour}
	give := &saga.Effect[string, string]{Name: "give", Do: func(_ context.Context, _ saga.Key, handle string) (string, error) {
		handles <- handle
		return "", nil
	}}
	info := saga.Info{Asks: []steps.Question{paid}, Effects: []saga.Declared{give}}
	byHandle, byKey := info, info
	byHandle.Name, byKey.Name = "by_handle", "by_key"
	return handles, []saga.Definition{
		saga.Flow[none, string]{Info: byHandle, Run: func(r *saga.Run, _ none) (string, error) {
			handle, err := saga.Handle(r, paid)
			if err != nil {
				return "", err
			}
			if _, err := saga.Do(r, give, handle); err != nil {
				return "", err
			}
			got, err := saga.Ask(r, paid)
			return fmt.Sprintf("paid %d", got.Cents), err
		}},
		saga.Flow[none, string]{Info: byKey, Run: func(r *saga.Run, _ none) (string, error) {
			if _, err := saga.Do(r, give, "order-17"); err != nil {
				return "", err
			}
			got, err := saga.Ask(r, paid.With(steps.Key("order-17")))
			return fmt.Sprintf("paid %d", got.Cents), err
		}},
	}
}

// What a mounted tool waits for is delivered to the mount: clients of both eras get what comes of it.
func TestMountedEvents(t *testing.T) {
	store := ledger.NewMemory(ledger.MemoryOptions{})
	t.Cleanup(func() { _ = store.Close() })
	handles, tools := newTill()
	h := mount(t, gosdk.Options{Ledger: store}, tools...)
	t.Cleanup(h.shutDown)
	sagas, mux := h.mounted, http.NewServeMux()
	mux.Handle("/events/", http.StripPrefix("/events/", sagas.EventHandler()))
	post := func(path, body string) int {
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/events"+path, strings.NewReader(body)))
		return w.Code
	}
	for name, c := range map[string]struct {
		tool, want string
		deliver    func(handle string) error
	}{
		"by code": {"by_handle", "paid 5", func(handle string) error { return h.mounted.Deliver(t.Context(), handle, payment{5}) }},
		"by HTTP": {"by_handle", "paid 6", func(handle string) error {
			assert.Equal(t, http.StatusBadRequest, post("/"+handle, "no JSON"))
			assert.Less(t, post("/"+handle, `{"cents":6}`), 300)
			return nil
		}},
		"by key":   {"by_key", "paid 7", func(key string) error { return h.mounted.Signal(t.Context(), "by_key", "paid", key, payment{7}) }},
		"rejected": {"by_handle", "declined", func(handle string) error { return h.mounted.Reject(t.Context(), handle, "no money") }},
	} {
		for _, version := range []string{modern, legacy} {
			t.Run(name+" "+version, func(t *testing.T) {
				if name == "by key" && version == legacy {
					return // an event with a key happens once
				}
				ended := make(chan *mcp.CallToolResult, 1)
				go func() {
					r, err := h.connect(version, nil).CallTool(t.Context(), &mcp.CallToolParams{Name: c.tool})
					assert.NoError(t, err)
					ended <- r
				}()
				require.NoError(t, c.deliver(<-handles))
				r := <-ended
				require.NotNil(t, r)
				assert.Contains(t, text(t, r), c.want)
			})
		}
	}
}

// Without a ledger such tools are refused: nothing could keep what comes, or find who waits.
func TestMountedEventsNeedALedger(t *testing.T) {
	_, tools := newTill()
	_, err := gosdk.Mount(newSDK(nil), gosdk.Options{Keys: newKeys(t)}, tools...)
	var wrong *saga.DefinitionError
	require.ErrorAs(t, err, &wrong)
	assert.ErrorContains(t, err, `tool "by_handle": it waits for events, for which the server needs a ledger`)
	h := mount(t, gosdk.Options{}, talk(1))
	require.ErrorContains(t, h.mounted.Deliver(t.Context(), "handle", nil), "need Options.Ledger")
}

// A client learns that its user is done with the page of a link at the end of the call: the mount waits for answers alone,
// while our own server also says it when the event of the link comes.
func TestMountedLinksAreDoneAtTheEnd(t *testing.T) {
	store := ledger.NewMemory(ledger.MemoryOptions{})
	t.Cleanup(func() { _ = store.Close() })
	handles := make(chan string, 1)
	signedIn := &steps.Event[none]{ID: "signed-in", Message: "Waiting for the sign-in.", Within: time.Hour}
	signIn := &steps.Link{ID: "sign-in", Message: "Please sign in.", URL: "https://login.example.com/", Done: signedIn}
	certain := &steps.Form[sure]{ID: "sure", Message: "Sure?"}
	tell := &saga.Effect[string, string]{Name: "tell", Do: func(_ context.Context, _ saga.Key, handle string) (string, error) {
		handles <- handle
		return "", nil
	}}
	h := mount(t, gosdk.Options{Ledger: store}, saga.Flow[none, string]{
		Info: saga.Info{Name: "calendar", Asks: []steps.Question{signIn, signedIn, certain}, Effects: []saga.Declared{tell}},
		Run: func(r *saga.Run, _ none) (string, error) {
			handle, err := saga.Handle(r, signedIn)
			if err != nil {
				return "", err
			}
			if _, err := saga.Do(r, tell, handle); err != nil {
				return "", err
			}
			return "the calendar", r.AskAll(signIn, signedIn, certain)
		},
	})
	t.Cleanup(h.shutDown)
	w := h.wire()
	w.greet(legacy, object{"elicitation": object{"form": object{}, "url": object{}}})
	id := w.begin("tools/call", object{"name": "calendar"})
	asked := map[string]jsontest.Value{}
	for range 2 {
		q := w.read()
		asked[q.Get("params.message").String()] = q
	}
	link := asked["Please sign in."]
	w.answer(link, `{"action":"accept"}`)
	require.NoError(t, h.mounted.Deliver(t.Context(), <-handles, nil))
	w.silent()
	w.answer(asked["Sure?"], `{"action":"accept","content":{"sure":true}}`)
	done := w.read()
	assert.Equal(t, "notifications/elicitation/complete", done.Get("method").String(), done.Raw)
	assert.Equal(t, link.Get("params.elicitationId").String(), done.Get("params.elicitationId").String())
	assert.Equal(t, "the calendar", w.result(id).Get("result.content.0.text").String())
}
