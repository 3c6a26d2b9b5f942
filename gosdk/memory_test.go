package gosdk_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/assert"

	"github.com/mcpsaga/mcpsaga/gosdk"
	"github.com/mcpsaga/mcpsaga/saga"
)

// The body of a request is not kept beside what the SDK has read of it, for as long as its call lasts.
func TestBodiesAreNotKeptTwice(t *testing.T) {
	held := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	const size = 3 << 20
	working, goOn := make(chan struct{}), make(chan struct{})
	h := mount(t, gosdk.Options{}, new(rooms).waiting(func(*saga.Run) error { working <- struct{}{}; <-goOn; return nil }))
	handler := gosdk.NewHTTPHandler(func(*http.Request) *mcp.Server { return h.sdk }, nil)
	before := held()
	served := make(chan int)
	go func() {
		call := message(1, "tools/callSaga", object{"name": "book"})
		body := io.MultiReader(strings.NewReader(call), io.LimitReader(new(endless), size))
		r := httptest.NewRequestWithContext(context.Background(), http.MethodPost, "/", body)
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Accept", "application/json, text/event-stream")
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		served <- w.Code
	}()
	<-working
	assert.Less(t, int64(held())-int64(before), int64(size/2), "the SDK has dropped the spaces behind the message, too")
	close(goOn)
	assert.Equal(t, http.StatusOK, <-served)
}
