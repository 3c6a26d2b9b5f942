package dialect

import (
	"context"
	"encoding/json"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/server/internal/wire"
	"github.com/mcpsaga/mcpsaga/steps"
)

func TestRelatedTask(t *testing.T) {
	const mark = `"io.modelcontextprotocol/related-task":{"taskId":"a\"b"}`
	for object, want := range map[string]string{
		"":                        `{"_meta":{` + mark + `}}`,
		`{}`:                      `{"_meta":{` + mark + `}}`,
		`{"a":{"b":[1]},"c":"d"}`: `{"_meta":{` + mark + `},"a":{"b":[1]},"c":"d"}`,
		`{"a":1,"_meta":{"x":2}}`: `{"_meta":{` + mark + `,"x":2},"a":1}`,
		`{"_meta":{},"é\"":1}`:    `{"_meta":{` + mark + `},"é\"":1}`,
	} {
		assert.JSONEq(t, want, string(RelatedTask(json.RawMessage(object), `a"b`)), object)
	}
}

// told is a way that keeps what it is notified of.
type told struct{ all []float64 }

func (w *told) Notify(_ string, params json.RawMessage) {
	var p struct{ Progress, Total float64 }
	if json.Unmarshal(params, &p) != nil || p.Total != 0 && p.Progress > p.Total {
		p.Progress = -1
	}
	w.all = append(w.all, p.Progress)
}
func (*told) Call(context.Context, string, json.RawMessage) (steps.Answer, error) { panic("not used") }
func (*told) Hangup(time.Duration)                                                {}
func (*told) KeepOpen() *wire.Error                                               { panic("not used") }

// Progress that only shows that there is somebody grows, and does not keep any from being shown
// that the tool tells of.
func TestNotifierIsAlive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := new(told)
		n := &Notifier{Way: w, Token: []byte("1")}
		n.Alive(time.Second)
		n.Alive(time.Second)
		require.Len(t, w.all, 1, "it is too early for another")
		n.Progress(engine.Progress{Done: 0.001, Total: 3})
		for range 1000 {
			time.Sleep(time.Second)
			n.Alive(time.Second)
		}
		time.Sleep(time.Millisecond * 100)
		n.Progress(engine.Progress{Done: 0.002, Total: 3})
		n.Progress(engine.Progress{Done: 3, Total: 3})
		time.Sleep(time.Second)
		n.Alive(time.Second)
		require.Equal(t, 1+1+1000+2+1, len(w.all))
		for i := 1; i < len(w.all); i++ {
			require.Greater(t, w.all[i], w.all[i-1])
		}
		silent := &Notifier{Way: w}
		silent.Alive(0)
		assert.Equal(t, 1+1+1000+2+1, len(w.all), "it wants to hear of no progress")
	})
}
