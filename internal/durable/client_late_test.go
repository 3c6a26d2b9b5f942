package durable_test

import (
	"context"
	"errors"
	"time"

	"github.com/mcpsaga/mcpsaga/internal/durable"
	"github.com/mcpsaga/mcpsaga/internal/tokens"
)

// comesLate is a client that comes about when the last server takes its token, which is one whose
// clock is far behind, and after the store has forgotten what it may.
func (x *played) comesLate(e event) {
	x.mu.Lock()
	var c *customer // one whose saga has ended, if there is any
	for _, other := range x.customers {
		if len(other.known) > 0 && (c == nil || other.end != "" && (c.end == "" || e.C%2 == 0)) {
			c = other
		}
	}
	if c == nil {
		x.mu.Unlock()
		return
	}
	token := c.known[e.B%len(c.known)]
	answers := c.answers(token, e.C/7)
	x.mu.Unlock()
	expires := x.claims(c, token).ExpiresAt
	edge := []time.Duration{modelSkew - time.Second, modelSkew + time.Second, modelSkew + 10*time.Second, modelSkew + time.Minute}[e.A%4]
	time.Sleep(time.Until(expires.Add(edge)))
	_, _ = x.store.Forget(context.Background(), 1000)
	p := x.start(len(x.servers), -14*time.Second)
	x.servers = append(x.servers, p)
	if e.B%3 == 0 {
		x.cancel(p, c, token, nil, e)
		return
	}
	x.resume(p, c, token, answers, e)
}

// claims are what a token says of its time, and of which turn of which saga it is.
func (x *played) claims(c *customer, token string) tokens.Claims {
	_, sealer := modelShared()
	o, _, err := sealer.OpenAnyTime(tokens.Binding{Purpose: c.policy.Purpose, Principal: "ann"}, time.Now(), token)
	must(err)
	return o.Claims
}

// knowsEnd reports whether a client that brings a token now must be told how its saga has ended:
// that is in the ledger, and the token opens to be told.
func (x *played) knowsEnd(p *process, c *customer, token string) bool {
	claims := x.claims(c, token)
	if time.Now().Add(p.skew + time.Minute).After(claims.ExpiresAt.Add(modelSkew + modelGrace)) {
		return false
	}
	r, err := x.store.Load(context.Background(), durable.SagaID(p.core, "ann", claims.ID))
	return err == nil && r.Status.Over()
}

// mustTell looks at what a client is told whose saga's end is known.
func (x *played) mustTell(p *process, c *customer, token string, err error) {
	var rejected *tokens.Rejected
	if !p.dead() && errors.As(err, &rejected) && rejected.Reason == tokens.ReasonExpired && x.knowsEnd(p, c, token) {
		x.breaks("saga %s has ended, and who comes with …%s is told only that it is too late", c.name, tail(token))
	}
}
