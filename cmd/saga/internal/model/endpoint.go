package model

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"

	"github.com/cenkalti/backoff/v5"

	"github.com/mcpsaga/mcpsaga/internal/outgoing"
)

const (
	// maxAnswer is the largest answer read from an endpoint, errors included, in bytes: far
	// more than a model says in one completion.
	maxAnswer = 8 << 20
	// maxTries is how often a request is sent while the endpoint is busy or unreachable.
	maxTries = 3
	// maxReason bounds what is shown of an endpoint's error, in bytes.
	maxReason = 500
)

// post sends a request as JSON and decodes the answer into result.
func post(ctx context.Context, url, key string, request, result any) error {
	body, err := json.Marshal(request)
	if err != nil {
		return err
	}
	answer, err := backoff.Retry(ctx, func() ([]byte, error) { return try(ctx, url, key, body) }, backoff.WithMaxTries(maxTries))
	if err != nil {
		return err
	}
	return json.Unmarshal(answer, result)
}

// try sends the request once. Its error is permanent if sending it again would not help.
func try(ctx context.Context, url, key string, body []byte) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return nil, backoff.Permanent(err)
	}
	request.Header.Set("Content-Type", "application/json")
	if key != "" {
		request.Header.Set("Authorization", "Bearer "+key)
	}
	// A redirect to another origin would take the key and the prompt there.
	response, err := (&http.Client{CheckRedirect: outgoing.CheckRedirect}).Do(request)
	if err != nil {
		if response != nil { // a redirect that is not followed
			err = backoff.Permanent(err)
		}
		return nil, err
	}
	defer response.Body.Close()
	answer, err := outgoing.ReadAll(response.Body, maxAnswer)
	switch {
	case errors.As(err, new(*outgoing.TooLargeError)):
		return nil, backoff.Permanent(err)
	case err != nil:
		return nil, err
	case response.StatusCode == http.StatusOK:
		return answer, nil
	}
	err = refusal(response.Status, answer)
	switch code := response.StatusCode; {
	case code == http.StatusRequestTimeout, code == http.StatusConflict, code == http.StatusTooManyRequests, code >= 500:
		if seconds, bad := strconv.Atoi(response.Header.Get("Retry-After")); bad == nil && seconds > 0 && seconds <= 60 {
			return nil, fmt.Errorf("%w (%w)", err, backoff.RetryAfter(seconds))
		}
		return nil, err
	}
	return nil, backoff.Permanent(err)
}

// refusal is an endpoint's error, with the reason that it gives in error.message.
func refusal(status string, answer []byte) error {
	var said struct {
		Error struct {
			Message string `json:"message"`
		} `json:"error"`
	}
	reason := string(answer)
	if json.Unmarshal(answer, &said) == nil && said.Error.Message != "" {
		reason = said.Error.Message
	}
	return fmt.Errorf("it answered %s: %.*q", status, maxReason, reason)
}
