package gosdk_test

import (
	"fmt"
	"log/slog"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/mcpsaga/mcpsaga/gosdk"
	"github.com/mcpsaga/mcpsaga/internal/jsontest"
	"github.com/mcpsaga/mcpsaga/saga"
)

// teller reports progress and logs, for the request with its name.
func teller() saga.Definition {
	return saga.Flow[topic, string]{Info: saga.Info{Name: "tell"}, Run: func(r *saga.Run, in topic) (string, error) {
		for n := range 3 {
			r.Progress(float64(n+1), 3, fmt.Sprintf("%s %d", in.Topic, n+1))
		}
		r.Log(slog.LevelDebug, "a detail")
		r.Log(slog.LevelWarn, map[string]any{"of": in.Topic, "n": int64(9007199254740993)})
		return in.Topic, nil
	}}
}

// Progress and log messages go to those who asked for them, on the request's own
// way.
func TestProgressAndLog(t *testing.T) {
	h := mount(t, gosdk.Options{}, teller())
	url := h.serve()
	check := func(name string, messages []jsontest.Value, token string, logs bool) {
		var progress, logged []string
		for _, m := range messages {
			switch m.Get("method").String() {
			case "notifications/progress":
				assert.Equal(t, token, m.Get("params.progressToken").Raw, name)
				progress = append(progress, m.Get("params.message").String())
			case "notifications/message":
				assert.Equal(t, "warning", m.Get("params.level").String(), name)
				logged = append(logged, m.Get("params.data").Raw)
			}
		}
		want, wantLogs := []string(nil), []string(nil)
		if token != "" {
			want = []string{name + " 1", name + " 2", name + " 3"}
		}
		if logs {
			wantLogs = []string{`{"n":9007199254740993,"of":"` + name + `"}`}
		}
		assert.Equal(t, want, progress, name)
		assert.Equal(t, wantLogs, logged, name)
	}
	until := func(w *wire, id int) (all []jsontest.Value) {
		for {
			r := w.read()
			if all = append(all, r); r.Get("id").Int() == int64(id) {
				return all
			}
		}
	}
	call := func(name string, m object) object {
		return object{"name": "tell", "arguments": object{"topic": name}, "_meta": m}
	}
	t.Run(modern, func(t *testing.T) {
		w := h.wire()
		m := meta(object{})
		check("silent", until(w, w.begin("tools/call", call("silent", m))), "", false)
		m["progressToken"] = "p"
		check("progress", until(w, w.begin("tools/call", call("progress", m))), `"p"`, false)
		m["io.modelcontextprotocol/logLevel"] = "info"
		m["progressToken"] = 7
		check("both", until(w, w.begin("tools/call", call("both", m))), `7`, true)
	})
	t.Run(legacy, func(t *testing.T) {
		w := h.wire()
		w.greet(legacy, object{})
		check("silent", until(w, w.begin("tools/call", call("silent", object{}))), "", false)
		check("progress", until(w, w.begin("tools/call", call("progress", object{"progressToken": 7}))), `7`, false)
		w.ask("logging/setLevel", object{"level": "info"})
		check("both", until(w, w.begin("tools/call", call("both", object{"progressToken": "p"}))), `"p"`, true)
	})
	t.Run("HTTP", func(t *testing.T) {
		s := newSession(t, url, "", object{})
		s.do("POST", message(9, "logging/setLevel", object{"level": "info"}))
		var wait sync.WaitGroup
		for n := range 5 {
			wait.Go(func() {
				name := fmt.Sprintf("call%d", n)
				next := s.stream(message(n, "tools/call", call(name, object{"progressToken": name})))
				var all []jsontest.Value
				for r := next(); r.Exists(); r = next() {
					all = append(all, r)
				}
				check(name, all, `"`+name+`"`, true)
			})
		}
		wait.Wait()
	})
}
