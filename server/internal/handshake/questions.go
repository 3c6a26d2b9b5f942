package handshake

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"encoding/json"
	"errors"
	"sync"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/mcpsaga/mcpsaga/internal/jsonview"
	"github.com/mcpsaga/mcpsaga/internal/turns"
	"github.com/mcpsaga/mcpsaga/server/internal/dialect"
	"github.com/mcpsaga/mcpsaga/server/internal/handshake/revision"
	"github.com/mcpsaga/mcpsaga/server/internal/wire"
	"github.com/mcpsaga/mcpsaga/steps"
)

// client asks the client by requests.
type client struct {
	*call
	links links
}

func (c *client) Ask(ctx context.Context, asked []steps.Step) ([]steps.Answer, error) {
	if c.peer.answering.Err() != nil {
		return nil, context.Cause(c.peer.answering)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(c.peer.answering, func() { cancel(context.Cause(c.peer.answering)) })()
	answers := make([]steps.Answer, len(asked))
	errs := make([]error, len(asked))
	var all sync.WaitGroup
	for i, step := range asked {
		method, params, err := stepRequest(c.peer.revision, step, &c.links)
		if err != nil {
			cancel(err)
			errs[i] = err
			break
		}
		call := func() {
			answers[i], errs[i] = c.Way.Call(ctx, method, params)
			if errors.Is(errs[i], turns.ErrLate) {
				answers[i], errs[i] = steps.Answer{}, nil
			}
		}
		if i == len(asked)-1 {
			call()
		} else {
			all.Go(call)
		}
	}
	all.Wait()
	if len(c.links.ids) > 0 {
		for i, s := range asked {
			c.links.answered(s.ID, answers[i])
		}
	}
	return answers, errors.Join(errs...)
}

// stepRequest is the request that asks the client for a step, in the form of its
// revision.
func stepRequest(r revision.Revision, s steps.Step, links *links) (method string, params json.RawMessage, err error) {
	params = s.Params
	switch {
	case s.Kind == steps.Elicitation && s.Needs.Has(steps.Features{Links: true}):
		params = links.open(s)
	case r < revision.November2025:
		params, err = r.Question(s)
	}
	return dialect.RequestMethods[s.Kind], params, err
}

// links are the pages that a call has sent the user to. From 2025-11-25 on each has
// an id, and the client learns when what was to be done there is done (MCP
// 2025-11-25, client/elicitation, completion notifications). What happens on a page
// the server need not know; but when the call has succeeded, it is done.
type links struct {
	id       string            // that of the next, if it is not to be found anew
	ids      map[string]string // of the steps asked, by step id
	accepted []string
}

// open adds the id to the parameters of a request in URL mode.
func (l *links) open(s steps.Step) json.RawMessage {
	id := cmp.Or(l.id, rand.Text())
	if l.ids == nil {
		l.ids = make(map[string]string)
	}
	l.ids[s.ID] = id
	out := append(jsontext.Value(nil), s.Params[:len(s.Params)-1]...) // compact: ends with the brace
	return append(wire.AppendString(append(out, `,"elicitationId":`...), id), '}')
}

// answered notes whether the user has agreed to open the page of a step, if that is one.
func (l *links) answered(step string, a steps.Answer) {
	if id := l.ids[step]; id != "" && jsonview.Is(jsonview.Get(a.Result, "action"), "accept") {
		l.accepted = append(l.accepted, id)
	}
}

// completed tells the client that what its user was to do on these pages is done.
func (c *call) completed(pages []string) {
	for _, id := range pages {
		c.Way.Notify("notifications/elicitation/complete", append(wire.AppendString([]byte(`{"elicitationId":`), id), '}'))
	}
}

// linkID is the id of a page that a task's question sends the user to: each replica finds the same.
func linkID(task, step string) string {
	sum := sha256.Sum256([]byte("page of task " + task + " " + step))
	return base32.StdEncoding.EncodeToString(sum[:16])[:26]
}
