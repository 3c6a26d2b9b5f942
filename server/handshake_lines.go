package server

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/sourcegraph/jsonrpc2"

	"github.com/mcpsaga/mcpsaga/server/internal/wire"
	"github.com/mcpsaga/mcpsaga/steps"
)

// handshakeLines is the dialect on one stdio connection, which is one session
// from initialize on.
type handshakeLines struct {
	*handshake
	lines *lineStream
	// conn sends requests to the client and finds the answers to them.
	conn *jsonrpc2.Conn
	// client is nil before initialize. Lines set it, in their order.
	client  atomic.Pointer[peer]
	asked   atomic.Uint64
	telling sync.WaitGroup
	started bool // telling; used in the order of the lines
}

// arrived sees every request in the order of the lines, before it is answered:
// what comes after initialize is served by what that agreed on.
func (d *handshakeLines) arrived(call *stdioCall) {
	if call.Method == "initialize" {
		call.ready = d.initialize(call)
	}
	call.peer = d.client.Load()
}

func (d *handshakeLines) initialize(call *stdioCall) []byte {
	if d.client.Load() != nil {
		return wire.AppendResponse(nil, call.ID, nil, wire.NewError(wire.CodeInvalidRequest, "this connection is initialized already"))
	}
	p, result, fail := d.open(call.Params)
	if fail == nil {
		d.client.Store(p)
	}
	return wire.AppendResponse(nil, call.ID, result, fail)
}

// notified handles a notification, in the order of the lines. Cancellations the
// connection handles itself.
func (d *handshakeLines) notified(m *wire.Message) {
	p := d.client.Load()
	if m.Method != "notifications/initialized" || p == nil || d.started {
		return
	}
	d.started = true
	d.telling.Go(func() {
		for {
			select {
			case <-p.changes.ready:
				if e, ok := p.changes.next(); ok {
					d.lines.write(e.notification())
				}
			case <-p.answering.Done():
				return
			}
		}
	})
}

// batches reports whether the client may send batches.
func (d *handshakeLines) batches() bool {
	p := d.client.Load()
	return p != nil && p.revision.batches()
}

// answer handles a request and returns the response, or nil for none.
func (d *handshakeLines) answer(call *stdioCall) []byte {
	if call.ready != nil {
		return call.ready
	}
	method := handshakeMethods[call.Method]
	if call.peer == nil && method.serve != nil && !method.open {
		return wire.AppendResponse(nil, call.ID, nil, wire.NewError(wire.CodeInvalidRequest, "send initialize first"))
	}
	var to exchange
	if call.peer != nil {
		to = &lineExchange{handshakeLines: d, call: call}
	}
	return d.handle(call.ctx, caller{}, call.peer, to, &call.Message)
}

// ended says that no more lines come: the client answers no more.
func (d *handshakeLines) ended() {
	if p := d.client.Load(); p != nil {
		p.silence(errSessionEnded)
	}
}

// close ends what is still open when the connection ends.
func (d *handshakeLines) close() {
	if p := d.client.Load(); p != nil {
		p.close(errSessionEnded)
	}
	d.telling.Wait()
}

// lineExchange is the exchange of a request that came as a line.
type lineExchange struct {
	*handshakeLines
	call *stdioCall
	// asking counts the questions that wait for the client.
	asking atomic.Int32
}

func (x *lineExchange) notify(method string, params json.RawMessage) {
	x.lines.notify(x.call, wire.AppendNotification(nil, method, params))
}

func (x *lineExchange) ask(ctx context.Context, method string, params json.RawMessage) (steps.Answer, error) {
	// While it waits for the client, the request leaves its place to another.
	if x.asking.Add(1) == 1 {
		<-x.lines.slots
	}
	defer func() {
		if x.asking.Add(-1) == 0 {
			x.lines.slots <- struct{}{}
		}
	}()
	id := x.asked.Add(1)
	sent, err := x.conn.DispatchCall(ctx, method, params, jsonrpc2.PickID(jsonrpc2.ID{Num: id}))
	if err != nil {
		return steps.Answer{}, errSessionEnded
	}
	var result json.RawMessage
	var fail *jsonrpc2.Error
	switch err := sent.Wait(ctx, &result); {
	case err == nil:
		return steps.Answer{Result: result}, nil
	case errors.As(err, &fail):
		a := steps.Answer{Error: &steps.ClientError{Code: fail.Code, Message: fail.Message}}
		if fail.Data != nil {
			a.Error.Data = *fail.Data
		}
		return a, nil
	case ctx.Err() != nil:
		// Not notify: the client hears of it even if it has cancelled the call.
		x.lines.write(wire.AppendNotification(nil, "notifications/cancelled", cancelledParams(strconv.FormatUint(id, 10), context.Cause(ctx))))
		return steps.Answer{}, context.Cause(ctx)
	}
	return steps.Answer{}, errSessionEnded
}

// disconnect does nothing: the connection is the session.
func (x *lineExchange) disconnect(retryAfter) {}
