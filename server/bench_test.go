package server_test

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// post sends a message to the handler without a network.
func postTo(b testing.TB, h http.Handler, message string) string {
	r := httptest.NewRequest(http.MethodPost, "http://localhost/mcp", strings.NewReader(message))
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	require.Equal(b, http.StatusOK, w.Code)
	return w.Body.String()
}

func liveHeap() uint64 {
	// Twice, as the first collection only moves sync.Pools to their victims.
	runtime.GC()
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

const suspended = 100_000

// heapGrowth starts sagas that are never resumed and returns by how many bytes
// the server's heap has grown.
func heapGrowth(b testing.TB, sagas int) int64 {
	h := newStdio(b).Handler()
	call := transcript(b)[0][0]
	for range 1000 {
		postTo(b, h, call) // fill pools and caches
	}
	before := liveHeap()
	for range sagas {
		require.True(b, strings.Contains(postTo(b, h, call), `"state":"suspended"`))
	}
	after := liveHeap()
	runtime.KeepAlive(h)
	return int64(after) - int64(before)
}

// BenchmarkHeapOfSuspendedSagas shows that sagas that wait for their client cost
// the server nothing. One operation is a hundred thousand sagas.
func BenchmarkHeapOfSuspendedSagas(b *testing.B) {
	for b.Loop() {
		grown := heapGrowth(b, suspended)
		b.ReportMetric(float64(grown), "heap-growth-B")
		b.ReportMetric(float64(grown)/suspended, "heap-B/saga")
	}
}

func TestSuspendedSagasLeaveNothingBehind(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector's own bookkeeping is on the heap")
	}
	// Less than a byte and a half each: far less than any entry of any map.
	require.Less(t, heapGrowth(t, 10_000), int64(15_000))
}

// BenchmarkTurn is one turn of the proposal's saga through the HTTP handler,
// without a network: the second, which opens a token and seals one.
func BenchmarkTurn(b *testing.B) {
	h := newStdio(b).Handler()
	pairs := transcript(b)
	token := parse(b, postTo(b, h, pairs[0][0])).Result.SagaToken
	message := []byte(strings.Replace(pairs[1][0], "TOKEN1", token, 1))
	b.ReportAllocs()
	for b.Loop() {
		r := httptest.NewRequest(http.MethodPost, "http://localhost/mcp", bytes.NewReader(message))
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != http.StatusOK {
			b.Fatal(w.Body.String())
		}
	}
}

// TestAllocationsOfATurn keeps what was won: a turn that allocates more does
// something that it did not do before.
func TestAllocationsOfATurn(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates as well")
	}
	h := newStdio(t).Handler()
	pairs := transcript(t)
	message := strings.Replace(pairs[1][0], "TOKEN1", parse(t, postTo(t, h, pairs[0][0])).Result.SagaToken, 1)
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // it empties pools
	// The request and the recorder take some twenty of them.
	require.LessOrEqual(t, testing.AllocsPerRun(200, func() { postTo(t, h, message) }), 103.0)
}
