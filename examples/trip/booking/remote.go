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

	"github.com/mcpsaga/mcpsaga/examples/trip/service"
	"github.com/mcpsaga/mcpsaga/saga"
)

// remote is one of the services, at its address.
type remote struct {
	base string
	http *http.Client
}

// newClient follows no redirect: what is meant for a service shall not go elsewhere.
func newClient() *http.Client {
	return &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

func (s *remote) place(ctx context.Context, key saga.Key, r service.Request) (h service.Hold, err error) {
	err = s.do(ctx, http.MethodPut, string(key), "", r, &h)
	return h, err
}

func (s *remote) confirm(ctx context.Context, key string, units int) (h service.Hold, err error) {
	err = s.do(ctx, http.MethodPost, key, "/confirm", map[string]int{"units": units}, &h)
	return h, err
}

func (s *remote) release(ctx context.Context, key string) error {
	return s.do(ctx, http.MethodDelete, key, "", nil, nil)
}

// do sends a request. Its error is a *service.Conflict if the service refused.
// Any other error leaves open what the service did.
func (s *remote) do(ctx context.Context, method, key, action string, body, into any) error {
	raw, err := json.Marshal(body)
	if err != nil {
		return err
	}
	r, err := http.NewRequestWithContext(ctx, method, s.base+"/holds/"+url.PathEscape(key)+action, bytes.NewReader(raw))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/json")
	response, err := s.http.Do(r)
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
