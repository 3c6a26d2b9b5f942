package booking

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/mcpsaga/mcpsaga/examples/trip/service"
	"github.com/mcpsaga/mcpsaga/saga"
)

// supplier is one of the services, with its effects.
type supplier struct {
	url     string
	client  *http.Client
	hold    *saga.Effect[service.Request, service.Hold]
	confirm *saga.Effect[part, service.Hold]
	ask     *saga.Effect[request, struct{}] // the bank's
}

// part is how much of a hold is to be confirmed.
type part struct {
	Key   string `json:"key"`
	Units int    `json:"units"`
}

// tryTimeout bounds one request to a service. It is repeated twice.
const tryTimeout = 5 * time.Second

// newSupplier returns the supplier at a URL. Its effects are called hold-NAME and confirm.
func newSupplier(url, name, confirm string) *supplier {
	s := &supplier{url: url, client: &http.Client{
		// What is meant for a service shall not go elsewhere.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
	// A hold is named by the effect's key: however often the effect is performed, there is one hold.
	s.hold = &saga.Effect[service.Request, service.Hold]{
		Name:    "hold-" + name,
		Timeout: tryTimeout,
		Do: func(ctx context.Context, key saga.Key, in service.Request) (h service.Hold, err error) {
			err = s.do(ctx, http.MethodPut, string(key), "", in, &h)
			// What is recorded is the hold as it was placed: a request that is
			// repeated late may find it confirmed, and must have the same result.
			h.State, h.Kept = service.Held, 0
			return h, refused(err)
		},
		// It does not matter whether the outcome of Do is known: a key under which
		// nothing is held is released too, and then nothing can be held under it.
		Undo: func(ctx context.Context, p saga.Performed[service.Request, service.Hold]) error {
			return s.release(ctx, string(p.Key))
		},
	}
	// Confirming needs no key of its own: a hold cannot be confirmed twice.
	s.confirm = &saga.Effect[part, service.Hold]{
		Name:    confirm,
		Timeout: tryTimeout,
		Do: func(ctx context.Context, _ saga.Key, in part) (h service.Hold, err error) {
			err = s.do(ctx, http.MethodPost, in.Key, "/confirm", map[string]int{"units": in.Units}, &h)
			return h, refused(err)
		},
	}
	return s
}

// newBank returns the supplier of the money. Whether the trip is booked is decided in one place, by the
// bank: its hold is confirmed or it is released, and the first of the two wins. Before, everything can be
// undone; after, what is left only has to be done. As the Undo of taking the money finds out which of the
// two it is, a saga whose client does not know either ends well.
func newBank(url string) *supplier {
	s := newSupplier(url, "money", "take-money")
	s.ask, s.confirm.Irreversible = s.asking(), true
	s.confirm.Undo = func(ctx context.Context, p saga.Performed[part, service.Hold]) error { return s.release(ctx, p.In.Key) }
	return s
}

// release releases a hold. Its error says whether the hold is confirmed.
func (s *supplier) release(ctx context.Context, key string) error {
	err := s.do(ctx, http.MethodDelete, key, "", nil, nil)
	if errors.As(err, new(*service.Conflict)) {
		return saga.Final(err)
	}
	return err
}

// refused marks errors by which the service said no, and not those by which it did not answer.
func refused(err error) error {
	if errors.As(err, new(*service.Conflict)) {
		return saga.Refused(err)
	}
	return err
}

// do sends a request. Its error is a *service.Conflict if the service refused. After any other error, it
// is not known what the service did.
func (s *supplier) do(ctx context.Context, method, key, action string, body, into any) error {
	raw, err := json.Marshal(body)
	if err != nil {
		return err
	}
	r, err := http.NewRequestWithContext(ctx, method, s.url+"/holds/"+url.PathEscape(key)+action, bytes.NewReader(raw))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/json")
	response, err := s.client.Do(r)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	answer, err := io.ReadAll(io.LimitReader(response.Body, 64<<10)) // far more than a service answers
	switch {
	case err != nil:
		return err
	case response.StatusCode == http.StatusNoContent:
		return nil
	case response.StatusCode == http.StatusOK:
		return json.Unmarshal(answer, into)
	}
	var problem service.Problem
	if err := json.Unmarshal(answer, &problem); err != nil {
		return fmt.Errorf("the service answers with the status %s", response.Status)
	}
	if response.StatusCode == http.StatusConflict {
		return &service.Conflict{Reason: problem.Error}
	}
	return errors.New(problem.Error)
}
