package server_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/internal/memoryhttp"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server"
	"github.com/mcpsaga/mcpsaga/server/internal/dialect"
	"github.com/mcpsaga/mcpsaga/steps"
)

// longTool holds a room, works for 40 seconds and takes three to give the room back.
func longTool(held *atomic.Int32, heeds bool) saga.Definition {
	room := &saga.Effect[string, bool]{
		Name: "room",
		Do:   func(context.Context, saga.Key, string) (bool, error) { held.Add(1); return true, nil },
		Undo: func(context.Context, saga.Performed[string, bool]) error {
			time.Sleep(3 * time.Second) //sagavet:ignore it is work, in virtual time
			held.Add(-1)
			return nil
		},
	}
	info := saga.Info{Name: "room", Asks: []steps.Question{askSure}, Effects: []saga.Declared{room}}
	return saga.Flow[struct{}, string]{Info: info, Run: func(r *saga.Run, _ struct{}) (string, error) {
		if _, err := saga.Do(r, room, "7"); err != nil {
			return "", err
		}
		var done <-chan struct{}
		if heeds {
			done = r.Done()
		}
		select {
		case <-done:
			return "", r.Err()
		case <-time.After(40 * time.Second): //sagavet:ignore the end of the server comes before
			return "the end", nil
		}
	}}
}

// overHTTP are clients over HTTP: each calls the tool, and returns what it reads in the end.
var overHTTP = map[string]func(*rig) string{
	"2026-07-28": func(r *rig) string { return r.send(callTool("room", object{}).with(allCapabilities)).raw },
	"relayed 2026-07-28": func(r *rig) string {
		return r.send(callTool("room", object{})).raw
	},
	"the saga methods": func(r *rig) string {
		return r.post(`{"jsonrpc":"2.0","id":1,"method":"tools/callSaga","params":{"name":"room"}}`)
	},
	"2025-11-25": func(r *rig) string { return inASession(r, "2025-11-25", true) },
	"2025-06-18": func(r *rig) string { return inASession(r, "2025-06-18", true) },
	"2025-06-18 without streams": func(r *rig) string {
		return inASession(r, "2025-06-18", false)
	},
}

func inASession(r *rig, version string, streams bool) string {
	c := r.connect(version, everything)
	resp := c.request(http.MethodPost, toolCall(1, "room", "{}"), func(q *http.Request) {
		if !streams {
			q.Header.Set("Accept", "application/json")
		}
	})
	return readAll(r.t, resp)
}

// A turn that takes longer than a server that stops has time is undone before Serve returns, and its client told.
func TestServersThatStopTellThoseWhoseTurnsTheyCut(t *testing.T) {
	for who, call := range overHTTP {
		for _, kept := range []bool{true, false} {
			for _, heeds := range []bool{true, false} {
				t.Run(fmt.Sprintf("%s, ledger %t, heeds %t", who, kept, heeds), func(t *testing.T) {
					inBubble(t, func(t *testing.T) {
						var held atomic.Int32
						log := new(logBuffer)
						o := server.Options{Tools: []saga.Definition{longTool(&held, heeds)}, Keys: newKeys(t), Logger: slog.New(slog.NewTextHandler(log, nil))}
						if kept {
							o.Ledger = inMemory(t)
						}
						s, err := server.New(o)
						require.NoError(t, err)
						network := new(memoryhttp.Network)
						l := network.Listen()
						ctx, stop := context.WithCancel(t.Context())
						ended := make(chan error, 1)
						go func() { ended <- s.Serve(ctx, l) }()
						transport := &http.Transport{DialContext: network.Dial}
						defer transport.CloseIdleConnections()
						r := &rig{t: t, url: "http://" + l.Addr().String(), http: &http.Client{Transport: transport}}
						time.AfterFunc(time.Second, stop)
						read := call(r)
						require.NoError(t, <-ended)
						switch {
						case kept && (who == "2025-11-25" || strings.Contains(read, "resumeToken")): // it comes back for the rest
						case strings.Contains(read, "the end"):
							assert.False(t, heeds)
							assert.EqualValues(t, 1, held.Load())
						case strings.Contains(read, dialect.ErrUnknown.Error()):
							assert.True(t, kept && !heeds)
						default:
							assert.Contains(t, read, dialect.ErrStopping.Error())
							assert.Zero(t, held.Load())
						}
						time.Sleep(time.Minute) // the code that does not heed its context returns
						assert.NotContains(t, log.take(), "level=ERROR")
					})
				})
			}
		}
	}
}
