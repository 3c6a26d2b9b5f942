package main

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path"
	"testing"
)

// moment is when something happens to a request that passes a proxy.
type moment string

const (
	// before: the request has not been delivered.
	before moment = "before"
	// after: it has been performed, and its answer has not been delivered.
	after moment = "after"
)

// point is a moment in the life of a saga.
type point struct {
	to     string // the process to which the request goes
	what   string // the request
	moment moment
}

func (p point) String() string { return fmt.Sprintf("%s %s, %s", p.to, p.what, p.moment) }

// fate is what becomes of a request at a point.
type fate int

const (
	goOn fate = iota
	// drop: it or its answer is lost, and the connection with it.
	drop
)

// proxy stands before one process and asks what to do at each point.
type proxy struct {
	*httptest.Server
	target *process
	at     func(point, *http.Request, []byte) fate
	client *http.Client
}

func newProxy(t *testing.T, target *process, at func(point, *http.Request, []byte) fate) *proxy {
	// Connections are not kept, so that one that breaks is the request's own.
	p := &proxy{target: target, at: at, client: &http.Client{
		Transport:     &http.Transport{DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
	p.Server = httptest.NewServer(p)
	t.Cleanup(p.Close)
	return p
}

// ServeHTTP implements http.Handler.
func (p *proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	here := point{p.target.name, describe(r, body), before}
	if p.at(here, r, body) == drop {
		panic(http.ErrAbortHandler)
	}
	response, err := p.forward(r, body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	defer func() { _ = response.Body.Close() }()
	answer, err := io.ReadAll(response.Body)
	here.moment = after
	if err != nil || p.at(here, r, body) == drop {
		panic(http.ErrAbortHandler)
	}
	w.Header().Set("Content-Type", response.Header.Get("Content-Type"))
	w.WriteHeader(response.StatusCode)
	_, _ = w.Write(answer)
}

// forward sends the request to the process, as long as whoever sent it waits.
func (p *proxy) forward(r *http.Request, body []byte) (*http.Response, error) {
	address := p.target.address()
	if address == "" {
		return nil, fmt.Errorf("%s is dead", p.target.name)
	}
	base, err := url.Parse(address)
	if err != nil {
		return nil, err
	}
	out := r.Clone(r.Context())
	out.RequestURI = ""
	out.URL.Scheme, out.URL.Host = "http", base.Host
	out.Host = base.Host
	out.Body = io.NopCloser(bytes.NewReader(body))
	return p.client.Do(out)
}

// describe names a request: the same in every run.
func describe(r *http.Request, body []byte) string {
	for _, method := range []string{"callSaga", "resumeSaga", "cancelSaga"} {
		if bytes.Contains(body, []byte(`"tools/`+method+`"`)) {
			return method
		}
	}
	if what := path.Base(r.URL.Path); what == "confirm" || what == "ask" && r.Method == http.MethodPost {
		return what
	}
	return r.Method
}
