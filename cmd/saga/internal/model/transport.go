package model

import (
	"bytes"
	"errors"
	"io"
	"net/http"

	"github.com/mcpsaga/mcpsaga/internal/outgoing"
)

// maxAnswer is the largest answer read from an endpoint, errors included, in bytes: far
// more than a model says in one completion.
const maxAnswer = 8 << 20

// transport sends the requests of the providers' libraries, which read answers of any
// size, and follow a redirect with key and prompt to anywhere.
type transport struct{ http *http.Client }

func newTransport() *transport {
	return &transport{&http.Client{CheckRedirect: outgoing.CheckRedirect}}
}

// Do sends a request and reads the answer.
func (t *transport) Do(r *http.Request) (*http.Response, error) {
	response, err := t.http.Do(r)
	if err != nil {
		// With the response that redirects: the libraries then do not try again.
		return response, err
	}
	body, err := outgoing.ReadAll(response.Body, maxAnswer)
	_ = response.Body.Close()
	response.Body = io.NopCloser(bytes.NewReader(body))
	var large *outgoing.TooLargeError
	if err != nil && !errors.As(err, &large) {
		return nil, err // as if there had been none: the libraries try again
	}
	return response, err
}
