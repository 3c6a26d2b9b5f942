package server

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/mcpsaga/mcpsaga/server/internal/dialect"
	"github.com/mcpsaga/mcpsaga/server/internal/wire"
	"github.com/mcpsaga/mcpsaga/steps"
)

// lineCall is a request under way on a lineConn, and the way back to its client.
type lineCall struct {
	dialect.Exchange
	conn   *lineConn
	cancel context.CancelCauseFunc
	batch  *lineBatch // what the request came in, or nil
	// due and working end what the connection counts, open if the request is kept open.
	due, working, open func()

	// silent: the client has cancelled the request and expects no answer. resting is how much of it
	// waits for the client, or for a task.
	silent  atomic.Bool
	resting atomic.Int32
}

func (x *lineCall) finish(response []byte) {
	c := x.conn
	x.cancel(nil)
	if x.silent.Load() {
		response = nil
	}
	if x.open != nil {
		c.reply(nil, response)
		x.open()
	} else {
		x.working()
		c.reply(x.batch, response)
		x.leavePlace()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.calls, x)
}

// leavePlace frees the request's place for others.
func (x *lineCall) leavePlace() {
	c := x.conn
	c.mu.Lock()
	c.placed--
	c.held -= x.Message.Size
	c.mu.Unlock()
	x.due()
	<-c.slots
}

func (x *lineCall) Notify(method string, params json.RawMessage) {
	if !x.silent.Load() {
		x.conn.notify(method, params)
	}
}

func (x *lineCall) Call(ctx context.Context, method string, params json.RawMessage) (steps.Answer, error) {
	c := x.conn
	id := c.asked.Add(1)
	defer x.Rest()()
	why := func() error { return cmp.Or(context.Cause(ctx), context.Cause(c.ctx), dialect.ErrSessionEnded) }
	wait, err := c.lines.Call(ctx, id, wire.AppendCall(nil, id, method, params))
	if err != nil {
		return steps.Answer{}, why()
	}
	response, err := wait()
	if err != nil {
		c.lines.Forget(id)
		err = why()
		// Not Notify: the client hears of it even if it has cancelled the call.
		c.notify(dialect.Cancellation(strconv.AppendUint(nil, id, 10), err))
		return steps.Answer{}, err
	}
	_, answer := dialect.ReadAnswer(jsontext.Value(response))
	return answer, nil
}

// Rest implements [dialect.Rester]: while it waits, the request leaves its place to another.
func (x *lineCall) Rest() (back func()) {
	slots := x.conn.slots
	if x.resting.Add(1) == 1 {
		<-slots
	}
	return func() {
		if x.resting.Add(-1) == 0 {
			slots <- struct{}{}
		}
	}
}

// Post implements [dialect.Poster].
func (x *lineCall) Post(id uint64, method string, params json.RawMessage) bool {
	return x.conn.lines.Write(wire.AppendCall(nil, id, method, params)) == nil
}

// Leave implements [dialect.Leaver].
func (x *lineCall) Leave() {
	x.silent.Store(true)
	x.cancel(dialect.ErrLeft)
}

// Hangup implements [dialect.Way]: the connection is the session.
func (*lineCall) Hangup(time.Duration) {}

// KeepOpen implements [dialect.Way]: a request that never ends must not take the place
// of one that does, and the end of the connection does not wait for its answer.
func (x *lineCall) KeepOpen() (ended <-chan struct{}, rerr *wire.Error) {
	c := x.conn
	c.mu.Lock()
	for other := range c.calls {
		if other.open != nil && !other.silent.Load() && bytes.Equal(other.Message.ID, x.Message.ID) {
			c.mu.Unlock()
			return nil, wire.Refuse(http.StatusBadRequest, wire.CodeInvalidRequest, "a request with this id is still open")
		}
	}
	x.open = c.open.Begin()
	c.mu.Unlock()
	x.working()
	x.leavePlace()
	return c.closing, nil
}
