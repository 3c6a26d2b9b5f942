package pages

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"time"

	"github.com/mcpsaga/mcpsaga/internal/durable"
)

// link is what is remembered of the link of a page, under its name. Its name is 128 random bits.
type link struct {
	// Principal and Task name the call.
	Principal string `cbor:"1,keyasint,omitempty"`
	Task      string `cbor:"2,keyasint"`
	// Secret is what forms of the page are known by.
	Secret []byte `cbor:"3,keyasint"`
	// Until is when the link ends, in seconds since 1970.
	Until int64 `cbor:"4,keyasint"`
}

// named is the name of a call's link.
type named struct {
	Name  string `cbor:"1,keyasint"`
	Until int64  `cbor:"2,keyasint"`
}

// nameSize is the length of a name, and of a secret, in bytes.
const nameSize = 16

// Link implements [dialect.Pages].
func (p *Pages) Link(ctx context.Context, principal, task string, until time.Time) (string, error) {
	core := p.host.Core
	// To write at each look costs more than a link that ends a little sooner.
	ttl := until.Sub(p.host.Turns.Now())
	soon, keep := until.Add(-ttl/16).Unix(), until.Add(ttl)
	extend := func(at *int64) bool {
		if *at >= soon {
			return false
		}
		*at = until.Unix()
		return true
	}
	of, err := durable.ChangeDocument(ctx, core, principal, core.DocumentName("page of", principal, task), keep, nil, func(n *named) (bool, error) {
		if n.Name == "" {
			n.Name = random()
		}
		return extend(&n.Until), nil
	})
	if err != nil {
		return "", err
	}
	// The name is written first: a process that ends between the two leaves a name that the next look makes good.
	name := of.Value.Name
	_, err = durable.ChangeDocument(ctx, core, principal, core.DocumentName("page", name), keep, nil, func(l *link) (bool, error) {
		if l.Secret == nil {
			l.Principal, l.Task, l.Secret = principal, task, []byte(random())
		}
		return extend(&l.Until), nil
	})
	if err != nil {
		return "", err
	}
	return p.url + "/" + name, nil
}

func random() string {
	b := make([]byte, nameSize)
	_, _ = rand.Read(b) // it never fails
	return base64.RawURLEncoding.EncodeToString(b)
}

// linkOf returns the link of that name, or [errUnknown].
func (p *Pages) linkOf(ctx context.Context, name string) (*link, error) {
	if b, err := base64.RawURLEncoding.DecodeString(name); err != nil || len(b) != nameSize {
		return nil, errUnknown // and the ledger is not asked
	}
	found, err := durable.ReadDocument[link](ctx, p.host.Core, p.host.Core.DocumentName("page", name))
	switch {
	case errors.Is(err, durable.ErrUnreadable):
		return nil, errUnknown
	case err != nil:
		return nil, err
	case !found.Exists() || p.host.Turns.Now().Unix() >= found.Value.Until:
		return nil, errUnknown
	}
	return &found.Value, nil
}

// token is what a form for a question has: it is known only where the page is seen.
func (l *link) token(question string) string { return mac(l.Secret, question) }

func mac(key []byte, text string) string {
	h := hmac.New(sha256.New, key)
	h.Write([]byte(text))
	return base64.RawURLEncoding.EncodeToString(h.Sum(nil))
}
