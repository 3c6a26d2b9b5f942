package stateless

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"iter"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/internal/tasks"
	"github.com/mcpsaga/mcpsaga/internal/turns"
	"github.com/mcpsaga/mcpsaga/server/internal/dialect"
	"github.com/mcpsaga/mcpsaga/server/internal/wire"
)

const (
	watchedID = "AAAAAAAAAAAAAAAAAAAAAA"
	// chosenID is one that a client has chosen in another protocol.
	chosenID = "my-task"
)

// watching is tasks of which one is found changed as is said, and then an error is found.
type watching struct {
	tasks.Viewer
	found []*tasks.Task
	err   error
	after *uint64
}

func (w watching) Get(_ context.Context, _, id string) (*tasks.Task, error) {
	if id != watchedID && id != chosenID {
		return nil, tasks.ErrNotFound
	}
	return w.found[0], nil
}

func (w watching) Follow(ctx context.Context, _, _ string, after uint64, _ func() time.Time) iter.Seq2[tasks.News, error] {
	*w.after = after
	return func(yield func(tasks.News, error) bool) {
		for _, t := range w.found {
			if !yield(tasks.News{Task: t}, nil) {
				return
			}
		}
		if w.err != nil {
			yield(tasks.News{}, w.err)
			return
		}
		<-ctx.Done()
	}
}

func TestWatch(t *testing.T) {
	const told, ack, goodbye = "notifications/tasks", "notifications/subscriptions/acknowledged", "notifications/cancelled"
	state := func(rev uint64, s tasks.Status, message string) *tasks.Task {
		return &tasks.Task{ID: watchedID, Status: s, Message: message, Rev: rev, Err: &turns.Error{Err: errors.New("a secret")}}
	}
	sick := errors.New("the store is sick")
	for name, c := range map[string]struct {
		found  []*tasks.Task
		err    error
		told   int
		stays  bool // until the client goes
		logged bool
	}{
		"it changes":                    {[]*tasks.Task{state(1, tasks.Working, ""), state(2, tasks.Working, "more")}, nil, 2, true, false},
		"it changes inside":             {[]*tasks.Task{state(1, tasks.Working, ""), state(2, tasks.Working, ""), state(3, tasks.Working, "")}, nil, 1, true, false},
		"it is back to what it was":     {[]*tasks.Task{state(1, tasks.Working, ""), state(2, tasks.Working, "more"), state(3, tasks.Working, "")}, nil, 3, true, false},
		"it has ended":                  {[]*tasks.Task{state(1, tasks.Failed, ""), state(2, tasks.Working, "never")}, nil, 1, true, false},
		"it is forgotten":               {[]*tasks.Task{state(1, tasks.Working, "")}, tasks.ErrNotFound, 1, true, false},
		"it cannot be watched any more": {[]*tasks.Task{state(1, tasks.Working, "")}, sick, 1, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			tools, err := engine.NewRegistry()
			require.NoError(t, err)
			var log bytes.Buffer
			var after uint64
			known, err := New(&dialect.Host{
				Tools: tools, Hub: new(dialect.Hub), Catalogue: new(dialect.Catalogue), Draining: t.Context(), Log: slog.New(slog.NewTextHandler(&log, nil)),
				Tasks: watching{found: c.found, err: c.err, after: &after}, Limits: dialect.Limits{MaxStreams: 1, MaxStreamsPerPrincipal: 1},
			})
			require.NoError(t, err)
			var heard []string
			stay := 50 * time.Millisecond
			if !c.stays {
				stay = 10 * time.Second
			}
			began := time.Now()
			m := &wire.Message{ID: []byte("1"), Params: []byte(`{"notifications":{"taskIds":["` + watchedID + `","0123456789012345678901","` + chosenID + `","` + watchedID + `"]}}`)}
			closing, hangUp := context.WithTimeout(t.Context(), stay)
			defer hangUp()
			way := notified(func(method string) { heard = append(heard, method) })
			_, err = known.(*stateless).listen(t.Context(), &request{Exchange: &dialect.Exchange{Message: m, Way: way, Closing: closing}, Capabilities: dialect.Capabilities{Tasks: true}})
			require.NoError(t, err)
			assert.Less(t, time.Since(began), 9*time.Second, "the server ends it")
			want := []string{ack}
			for range c.told {
				want = append(want, told)
			}
			assert.Equal(t, append(want, goodbye), heard)
			assert.Equal(t, c.logged, log.Len() > 0, log.String())
			if len(c.found) > 1 && !c.found[0].Status.Ended() {
				assert.Equal(t, uint64(tasks.NoEvents), after)
			}
		})
	}
}

// What was begun elsewhere under an id that can be guessed is nobody's here.
func TestWatchingTasksOfOtherProtocols(t *testing.T) {
	d := &stateless{Host: &dialect.Host{Tasks: watching{found: []*tasks.Task{{ID: chosenID}}}}}
	for _, id := range []string{chosenID, watchedID} {
		r := &request{Exchange: &dialect.Exchange{Message: &wire.Message{Params: []byte(`{"taskId":"` + id + `"}`)}}}
		_, err := d.getTask(t.Context(), r)
		assert.Equal(t, id == chosenID, errors.Is(err, tasks.ErrNotFound), id)
	}
}

// A task that has failed says no more of why than a call would.
func TestTaskFailures(t *testing.T) {
	var log bytes.Buffer
	h := &dialect.Host{Log: slog.New(slog.NewTextHandler(&log, nil))}
	d := &stateless{Host: h}
	r := &request{Exchange: &dialect.Exchange{Message: &wire.Message{}}}
	for name, c := range map[string]struct {
		err  error
		code int64
		text string
		data string
	}{
		"for the operator":  {errors.New("a secret"), -32603, "internal error", ""},
		"for the client":    {&turns.Error{Err: &tasks.FailedError{Text: "too late"}}, -32603, "too late", ""},
		"to be tried again": {&turns.Error{Err: turns.ErrLedger}, -32603, "internal error", ""},
		"a capability":      {&turns.Error{Err: &engine.UnsupportedError{Tool: "t", StepID: "s"}}, -32021, "", `{"requiredCapabilities":{}}`},
	} {
		rerr := d.taskFailure(t.Context(), r, &tasks.Task{Err: c.err})
		assert.Equal(t, c.code, rerr.Code, name)
		if c.text != "" {
			assert.Equal(t, c.text, rerr.Message, name)
		}
		assert.Equal(t, c.data, string(rerr.Data), name)
		assert.True(t, json.Valid(wire.AppendErrorObject(nil, rerr)))
	}
	assert.Empty(t, log.String(), "it was logged when it happened")
}

// Where there is no room for a subscription, nothing is looked for.
func TestNoRoomToWatch(t *testing.T) {
	tools, err := engine.NewRegistry()
	require.NoError(t, err)
	d := &stateless{Host: &dialect.Host{Tools: tools, Turns: new(turns.Runner), Tasks: nothing{}}, streams: dialect.Limit{What: "subscriptions"}}
	m := &wire.Message{ID: []byte("1"), Params: []byte(`{"notifications":{"taskIds":["` + watchedID + `"]}}`)}
	_, err = d.listen(t.Context(), &request{Exchange: &dialect.Exchange{Message: m, Way: notified(nil)}, Capabilities: dialect.Capabilities{Tasks: true}})
	var rerr *wire.Error
	require.ErrorAs(t, err, &rerr)
	assert.Contains(t, rerr.Message, "too many subscriptions")
}

// nothing is tasks that nobody may look for.
type nothing struct{ tasks.Viewer }

// However many tasks have ended, the results of a client that does not read do not pile up.
func TestWatchHoldsOneResult(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		looked := 0
		d := &stateless{Host: &dialect.Host{Tasks: ends{looked: &looked}}}
		filter := listenFilter{}
		ids := []string{watchedID, "BBBBBBBBBBBBBBBBBBBBBB", "CCCCCCCCCCCCCCCCCCCCCC"}
		r := &request{Exchange: &dialect.Exchange{}, Capabilities: dialect.Capabilities{Tasks: true}}
		require.NoError(t, d.findTasks(t.Context(), r, ids, &filter))
		for _, task := range filter.tasks {
			assert.Nil(t, task.End)
		}
		looked = 0
		ctx, cancel := context.WithCancel(t.Context())
		w, wait := d.watch(ctx, cancel, r, filter.tasks)
		for n := range ids {
			synctest.Wait()
			assert.Equal(t, n, looked)
			task := <-w.news
			assert.Nil(t, task.End)
			news, err := w.tell(ctx, task)
			require.NoError(t, err)
			assert.Contains(t, string(news), task.ID)
		}
		assert.Empty(t, w.last)
		cancel()
		wait()
	})
}

// ends is tasks that have all ended.
type ends struct {
	tasks.Viewer
	looked *int
}

func (e ends) Get(_ context.Context, _, id string) (*tasks.Task, error) {
	*e.looked++
	return &tasks.Task{ID: id, Status: tasks.Cancelled, End: new(turns.End)}, nil
}
