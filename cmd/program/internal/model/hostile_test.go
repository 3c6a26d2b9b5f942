package model

import (
	"compress/gzip"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/steps"
)

// ask asks a model at address with a key and a prompt.
func ask(t *testing.T, address string) error {
	t.Helper()
	m, err := New("m", address, "key", environment())
	require.NoError(t, err)
	_, err = m.Complete(t.Context(), &steps.SampleRequest{MaxTokens: 1, Messages: []steps.SampleMessage{steps.UserText("prompt")}})
	return err
}

func TestRedirectsToOthersAreRefused(t *testing.T) {
	for _, status := range []int{301, 302, 303, 307, 308} {
		var others, requests atomic.Int32
		other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { others.Add(1) }))
		endpoint := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			requests.Add(1)
			http.Redirect(w, r, other.URL+r.URL.Path, status)
		}))
		err := ask(t, endpoint.URL)
		endpoint.Close()
		other.Close()
		assert.ErrorContains(t, err, "it redirects to "+other.URL, "%d", status)
		assert.Zero(t, others.Load(), "%d: key and prompt stay where they are meant for", status)
		assert.EqualValues(t, 1, requests.Load(), "%d: to try again does not help", status)
	}
}

func TestRedirectsWithinAnEndpointAreFollowed(t *testing.T) {
	var key, body string
	endpoint := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasPrefix(r.URL.Path, "/moved") {
			http.Redirect(w, r, "/moved"+r.URL.Path, http.StatusPermanentRedirect)
			return
		}
		data, err := io.ReadAll(r.Body)
		assert.NoError(t, err)
		key, body = r.Header.Get("Authorization"), string(data)
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"model":"m","choices":[{"finish_reason":"stop","message":{"role":"assistant","content":"hi"}}]}`)
	}))
	assert.NoError(t, ask(t, endpoint.URL))
	endpoint.Close()
	assert.Contains(t, key, "key")
	assert.Contains(t, body, "prompt")
}

// A megabyte of an answer, over and over.
var megabyte = []byte(strings.Repeat("x", 1<<20))

func TestHugeAnswersAreNotRead(t *testing.T) {
	const hugeMB = 64
	for name, c := range map[string]struct {
		status   int
		kind     string
		encoding string
	}{
		"answer":          {200, "application/json", ""},
		"error":           {400, "application/json", ""},
		"event stream":    {200, "text/event-stream", ""},
		"compressed bomb": {200, "application/json", "gzip"},
	} {
		t.Run(name, func(t *testing.T) {
			var sent, requests atomic.Int32
			endpoint := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				requests.Add(1)
				w.Header().Set("Content-Type", c.kind)
				out := io.Writer(w)
				if c.encoding != "" {
					w.Header().Set("Content-Encoding", c.encoding)
					z, _ := gzip.NewWriterLevel(w, gzip.BestSpeed)
					defer z.Close()
					out = z
				}
				w.WriteHeader(c.status)
				_, _ = io.WriteString(out, `{"model":"`)
				for range hugeMB {
					if _, err := out.Write(megabyte); err != nil {
						return
					}
					sent.Add(1)
				}
			}))
			defer endpoint.Close()
			err := ask(t, endpoint.URL)
			require.ErrorContains(t, err, "its answer is larger than 8388608 bytes")
			assert.EqualValues(t, 1, requests.Load(), "it would be as large the next time")
			if c.encoding == "" {
				assert.Less(t, sent.Load(), int32(hugeMB), "it is not read to its end")
			}
		})
	}
}

// An endpoint that never answers, or never to the end, keeps nobody waiting for ever, and is not asked again.
func TestEndpointsThatNeverAnswer(t *testing.T) {
	t.Parallel()
	for name, begin := range map[string]bool{"no answer": false, "no end": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var requests atomic.Int32
			endpoint := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				requests.Add(1)
				_, _ = io.Copy(io.Discard, r.Body) // so that the end of the connection is seen
				if begin {
					_, _ = io.WriteString(w, `{"model":`)
					assert.NoError(t, http.NewResponseController(w).Flush())
				}
				<-r.Context().Done()
			}))
			defer endpoint.Close()
			m, err := New("m", endpoint.URL, "key", environment())
			require.NoError(t, err)
			assert.Equal(t, 10*time.Minute, m.patience)
			m.patience = time.Second // a busy machine has to have sent the request
			request := &steps.SampleRequest{MaxTokens: 1, Messages: []steps.SampleMessage{steps.UserText("prompt")}}
			_, err = m.Complete(t.Context(), request)
			require.ErrorContains(t, err, "it has not answered within 1s: see whether it works, or choose another by --model and --model-url")
			assert.EqualValues(t, 1, requests.Load())

			m.patience = time.Hour
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			defer cancel()
			_, err = m.Complete(ctx, request)
			require.ErrorIs(t, err, context.DeadlineExceeded)
		})
	}
}
