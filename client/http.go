package client

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mcpsaga/mcpsaga/internal/outgoing"
)

// defaultMaxResponse is the largest response [HTTP] and the longest line [Stdio]
// accepts, in bytes, unless they say otherwise.
const defaultMaxResponse = 8 << 20

// maxHeader limits the size of a response's header in bytes.
const maxHeader = 256 << 10

// HTTP carries requests to a server's URL by POST, one response per request. Fill
// in the fields before the first use and do not copy it afterwards.
//
// Redirects are followed only within the origin of URL (scheme, host and port), and only
// when they keep the request as it is (307 and 308).
type HTTP struct {
	// URL is the server's MCP endpoint, for example http://127.0.0.1:8080/mcp.
	URL string
	// Bearer is an access token sent in the Authorization header, or empty. It is
	// refused over plain http, except to this machine.
	Bearer string
	// Header is sent with every request.
	Header http.Header
	// MaxResponse limits the size of a response in bytes. 0 means
	// 8 MiB.
	MaxResponse int64
	// Stall is how long a response that has begun may take to go on, by 1 KiB or to its
	// end. It does not apply to streams of events, which may wait for the tool. 0 means
	// 30 seconds.
	Stall time.Duration
	// RoundTripper sends the requests. nil means a transport of its own with the
	// defaults of net/http, proxies from the environment included.
	RoundTripper http.RoundTripper

	once    sync.Once
	client  *http.Client
	target  *url.URL
	invalid error
	lastID  atomic.Uint64
}

// Close closes idle connections.
func (h *HTTP) Close() error {
	h.once.Do(h.setUp)
	if h.client != nil {
		h.client.CloseIdleConnections()
	}
	return nil
}

func (h *HTTP) setUp() {
	h.target, h.invalid = parseTarget(h.URL)
	if h.invalid != nil {
		return
	}
	if h.Bearer != "" && h.target.Scheme != "https" && !isLoopback(h.target.Hostname()) {
		h.invalid = fmt.Errorf("a bearer token would cross the network in the clear to %s: use https", h.target.Host)
		return
	}
	tripper := h.RoundTripper
	if tripper == nil {
		own := http.DefaultTransport.(*http.Transport).Clone()
		own.MaxResponseHeaderBytes = maxHeader
		tripper = own
	}
	h.client = &http.Client{Transport: tripper, CheckRedirect: checkRedirect}
}

func parseTarget(address string) (*url.URL, error) {
	target, err := url.Parse(address)
	if err != nil {
		return nil, err
	}
	if target.Scheme != "http" && target.Scheme != "https" || target.Host == "" {
		return nil, fmt.Errorf("%q is not an http or https URL", address)
	}
	return target, nil
}

func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

func checkRedirect(next *http.Request, via []*http.Request) error {
	if outgoing.CheckRedirect(next, via) != nil || next.Method != http.MethodPost {
		return malformed("the server redirects to %s; call that address yourself if you trust it", next.URL.Redacted())
	}
	return nil
}

func (h *HTTP) exchange(ctx context.Context, r *request) (json.RawMessage, error) {
	h.once.Do(h.setUp)
	if h.invalid != nil {
		return nil, &TransportError{Err: h.invalid, final: true}
	}
	id := h.lastID.Add(1)
	body, err := json.Marshal(message{JSONRPC: "2.0", ID: id, Method: r.method, Params: r.params})
	if err != nil {
		return nil, &TransportError{Err: err, final: true}
	}
	var connected atomic.Bool
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn: func(httptrace.GotConnInfo) { connected.Store(true) },
	})
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	request, err := h.newRequest(ctx, body)
	if err != nil {
		return nil, &TransportError{Err: err, final: true}
	}
	for name, value := range r.header {
		request.Header.Set(name, value)
	}
	response, err := h.client.Do(request)
	if err != nil {
		// A RoundTripper of somebody else's need not report connections.
		return nil, classify(ctx, err, connected.Load() || h.RoundTripper != nil && !isDialError(err))
	}
	defer response.Body.Close()
	return h.read(ctx, response, id, stop)
}

func (h *HTTP) newRequest(ctx context.Context, body []byte) (*http.Request, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, h.target.String(), bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	for name, values := range h.Header {
		request.Header[http.CanonicalHeaderKey(name)] = values
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Accept", "application/json, text/event-stream")
	if h.Bearer != "" {
		request.Header.Set("Authorization", "Bearer "+h.Bearer)
	}
	return request, nil
}

// read returns the result in a response. JSON-RPC errors count as such whatever
// the status, except where the status says that another attempt may succeed.
func (h *HTTP) read(ctx context.Context, response *http.Response, id uint64, stop context.CancelCauseFunc) (json.RawMessage, error) {
	limit := h.MaxResponse
	if limit <= 0 {
		limit = defaultMaxResponse
	}
	kind, _, _ := mime.ParseMediaType(response.Header.Get("Content-Type"))
	if kind == "text/event-stream" && response.StatusCode == http.StatusOK {
		return readEvents(ctx, response.Body, limit, id)
	}
	body, err := readAll(response.Body, limit, cmp.Or(h.Stall, defaultStall), stop)
	if err != nil {
		if errors.Is(context.Cause(ctx), errStalled) {
			return nil, &TransportError{Sent: true, Err: errStalled}
		}
		return nil, classify(ctx, err, true)
	}
	if int64(len(body)) > limit {
		return nil, tooMuch(limit, "bytes in an answer")
	}
	isJSON := kind == "application/json" || strings.HasSuffix(kind, "+json")
	if response.StatusCode == http.StatusOK {
		if !isJSON {
			return nil, malformed("the server answered with %q instead of application/json; is %s its MCP endpoint?", kind, h.target.Redacted())
		}
		return parseResponse(body, id)
	}
	failure := error(fmt.Errorf("%s", hint(response.StatusCode)))
	if isJSON {
		var refused *Error
		if _, err := parseResponse(body, id); errors.As(err, &refused) {
			failure = refused
		}
	}
	lost := &TransportError{Sent: true, Status: response.StatusCode, Err: failure, RetryAfter: retryAfter(response.Header)}
	if _, refused := failure.(*Error); refused && !lost.repeatable(true) {
		return nil, failure
	}
	return nil, lost
}

// classify turns an error of net/http into one of ours. sent is false if the
// request certainly did not reach the server.
func classify(ctx context.Context, err error, sent bool) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	var refused *ProtocolError
	if errors.As(err, &refused) {
		return refused
	}
	var inURL *url.Error
	if errors.As(err, &inURL) {
		err = inURL.Err // without the method and address, which the caller knows
	}
	return &TransportError{Sent: sent, Err: err, final: isCertificateError(err)}
}
