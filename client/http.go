package client

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"mime"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tmaxmax/go-sse"

	"github.com/mcpsaga/mcpsaga/internal/outgoing"
)

// defaultMaxResponse is the largest response or line that is accepted, in bytes, unless they say otherwise.
const defaultMaxResponse = 8 << 20

// maxHeader limits the size of a response's header in bytes.
const maxHeader = 256 << 10

// HTTP carries requests to a server's URL by POST, one response per request. Fill
// in the fields before the first use and do not copy it afterwards.
//
// Redirects are followed only within the origin of URL (scheme, host and port), and only
// when they keep the request as it is (307 and 308).
type HTTP struct {
	URL string // the server's MCP endpoint, for example http://127.0.0.1:8080/mcp
	// Bearer is an access token sent in the Authorization header, or empty. It is
	// refused over plain http, except to this machine.
	Bearer      string
	Header      http.Header // is sent with every request
	MaxResponse int64       // limits the size of a response in bytes; 0 means 8 MiB
	// Stall is how long a response that has begun may take for the next 1 KiB, or to its
	// end. It does not apply to streams of events, which may wait for the tool. 0 means
	// 30 seconds.
	Stall time.Duration
	// RoundTripper sends the requests. nil means a transport of its own with the
	// defaults of net/http, proxies from the environment included.
	RoundTripper http.RoundTripper

	once    sync.Once
	inner   http.RoundTripper
	client  *http.Client
	target  *url.URL
	invalid error
	lastID  atomic.Uint64
}

// Close closes idle connections.
func (h *HTTP) Close() error {
	h.once.Do(h.setUp)
	(&http.Client{Transport: h.inner}).CloseIdleConnections()
	return nil
}

// Client returns a client for programs that speak with the server by themselves. It sends
// Bearer and Header with every request, follows no more redirects than h, and reads no more
// than MaxResponse of a response that is no stream of events. It is to be used for URL only.
func (h *HTTP) Client() (*http.Client, error) {
	h.once.Do(h.setUp)
	if h.invalid != nil {
		return nil, &TransportError{Err: h.invalid, final: true}
	}
	own := *h.client
	return &own, nil
}

func (h *HTTP) setUp() {
	if h.inner = h.RoundTripper; h.inner == nil {
		own := http.DefaultTransport.(*http.Transport).Clone()
		own.MaxResponseHeaderBytes = maxHeader
		h.inner = own
	}
	h.client = &http.Client{Transport: sender{h}, CheckRedirect: checkRedirect}
	h.target, h.invalid = url.Parse(h.URL)
	switch {
	case h.invalid != nil:
	case h.target.Scheme != "http" && h.target.Scheme != "https" || h.target.Host == "":
		h.invalid = fmt.Errorf("%q is not an http or https URL", h.URL)
	case strings.ContainsFunc(h.Bearer+fmt.Sprint(h.Header), func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }):
		h.invalid = errors.New("the bearer token, or a header, has a line break or another control character: give it without")
	case h.Bearer != "" && h.target.Scheme != "https" && !outgoing.IsLoopback(h.target.Hostname()):
		h.invalid = fmt.Errorf("a bearer token would cross the network in the clear to %s: use https", h.target.Host)
	}
}

func checkRedirect(next *http.Request, via []*http.Request) error {
	if outgoing.CheckRedirect(next, via) != nil || next.Method != via[0].Method {
		return malformed("the server redirects to %s; call that address yourself if you trust it", next.URL.Redacted())
	}
	return nil
}

// sender adds what h sends with every request, and limits the responses.
type sender struct{ h *HTTP }

func (s sender) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	for name, values := range s.h.Header {
		r.Header[http.CanonicalHeaderKey(name)] = values
	}
	if s.h.Bearer != "" {
		r.Header.Set("Authorization", "Bearer "+s.h.Bearer)
	}
	response, err := s.h.inner.RoundTrip(r)
	if err == nil && contentType(response) != eventStream {
		response.Body = http.MaxBytesReader(nil, response.Body, s.h.limit())
	}
	return response, err
}

// limit leaves room to read a little more than it.
func (h *HTTP) limit() int64 {
	return min(cmp.Or(max(h.MaxResponse, 0), defaultMaxResponse), math.MaxInt-2)
}

const eventStream = "text/event-stream"

func contentType(r *http.Response) string {
	kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	return kind
}

func (h *HTTP) exchange(ctx context.Context, r *request) (json.RawMessage, error) {
	client, err := h.Client()
	if err != nil {
		return nil, err
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
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, h.target.String(), bytes.NewReader(body))
	if err != nil {
		return nil, &TransportError{Err: err, final: true}
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Accept", "application/json, text/event-stream")
	for name, value := range r.header {
		request.Header.Set(name, value)
	}
	response, err := client.Do(request)
	if err != nil {
		// A RoundTripper that the caller has written need not report connections.
		network, ok := errors.AsType[*net.OpError](err)
		isDial := ok && network.Op == "dial"
		return nil, classify(ctx, err, connected.Load() || h.RoundTripper != nil && !isDial)
	}
	defer response.Body.Close()
	if response.StatusCode == http.StatusOK && contentType(response) == eventStream {
		return readEvents(ctx, response.Body, h.limit(), id, r.notify)
	}
	body, err = readAll(response.Body, cmp.Or(h.Stall, defaultStall), stop)
	if err != nil {
		return nil, classify(ctx, err, true)
	}
	return h.parse(response, body, id)
}

// parse returns the result in a response. A JSON-RPC error counts, unless the status says that another attempt may succeed.
func (h *HTTP) parse(response *http.Response, body []byte, id uint64) (json.RawMessage, error) {
	kind := contentType(response)
	isJSON := kind == "application/json" || strings.HasSuffix(kind, "+json")
	status := response.StatusCode
	if status == http.StatusOK && !isJSON {
		return nil, malformed("the server answered with %q instead of application/json; is %s its MCP endpoint?", kind, h.target.Redacted())
	}
	var result json.RawMessage
	var err error
	if isJSON {
		result, err = parseResponse(body, id)
	}
	if status == http.StatusOK {
		return result, err
	}
	lost := &TransportError{Sent: true, Status: status, Err: errors.New(cmp.Or(hints[status], http.StatusText(status))), RetryAfter: retryAfter(response.Header)}
	if status == http.StatusNotFound || status == http.StatusMethodNotAllowed {
		lost.Err = fmt.Errorf("%s is not an MCP endpoint; check the path of the URL, which most servers have at /mcp", h.target.Redacted())
	}
	if refused, ok := errors.AsType[*Error](err); ok {
		if !lost.repeatable(true) {
			return nil, refused
		}
		lost.Err = refused
	}
	return nil, lost
}

// classify makes our error of one of net/http. sent is false if the request certainly did not reach the server.
func classify(ctx context.Context, err error, sent bool) error {
	if errors.Is(context.Cause(ctx), errStalled) {
		return &TransportError{Sent: true, Err: errStalled}
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if long, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return tooMuch(long.Limit, "bytes in an answer")
	}
	if refused, ok := errors.AsType[*ProtocolError](err); ok {
		return refused
	}
	if inURL, ok := errors.AsType[*url.Error](err); ok {
		err = inURL.Err // without the method and address, which the caller knows
	}
	return &TransportError{Sent: sent, Err: err, final: errors.As(err, new(*tls.CertificateVerificationError))}
}

// hints say what to do about an HTTP status.
var hints = map[int]string{
	http.StatusUnauthorized:          "the server wants a credential; set a bearer token",
	http.StatusForbidden:             "the server does not allow this caller",
	http.StatusRequestEntityTooLarge: "the arguments or answers are larger than the server accepts",
}

// retryAfter reads the Retry-After header, which is in seconds or a date.
func retryAfter(header http.Header) time.Duration {
	value := header.Get("Retry-After")
	if seconds, err := strconv.ParseUint(value, 10, 31); err == nil {
		return time.Duration(seconds) * time.Second
	}
	if date, err := http.ParseTime(value); err == nil {
		return max(0, time.Until(date))
	}
	return 0
}

// defaultStall is the default of HTTP.Stall.
const defaultStall = 30 * time.Second

// errStalled is the error of a turn whose response began and then stalled.
var errStalled = fmt.Errorf("%w: its answer began and does not go on", ErrTimeout)

// minProgress is how many bytes count as progress, as a server could keep its client waiting with one now and then.
const minProgress = 1 << 10

// readAll reads in to its end. It waits for the first byte as long as the tool works, and gives up when the next minProgress bytes
// take longer than patience. stop must end a read under way.
func readAll(in io.Reader, patience time.Duration, stop context.CancelCauseFunc) ([]byte, error) {
	var all bytes.Buffer
	_, err := io.CopyN(&all, in, 1)
	watch := time.AfterFunc(patience, func() { stop(errStalled) })
	defer watch.Stop()
	for err == nil {
		watch.Reset(patience)
		_, err = io.CopyN(&all, in, minProgress)
	}
	if err != io.EOF {
		return nil, err
	}
	return all.Bytes(), nil
}

// readEvents returns the result in a stream of events instead of a JSON object (MCP 2025-11-25, basic/transports, sending messages to
// the server). Notifications before it are for notify, unless that is nil.
func readEvents(ctx context.Context, stream io.Reader, limit int64, id uint64, notify func(string, json.RawMessage)) (json.RawMessage, error) {
	rest := &io.LimitedReader{R: stream, N: limit + 1}
	broken := errors.New("the server's stream of events ended without the response")
	// The limit is of the whole stream; events end with it, not before.
	for event, err := range sse.Read(rest, &sse.ReadConfig{MaxEventSize: int(limit) + 2}) {
		if err != nil {
			broken = fmt.Errorf("the server's stream of events: %w", err)
			break
		}
		var m wireMessage
		switch known := json.Unmarshal([]byte(event.Data), &m) == nil; {
		case event.Data == "":
		case !known || m.Method == "":
			return parseResponse([]byte(event.Data), id)
		case m.ID != nil && m.Method != "ping":
			return nil, malformed("%s", outOfPlace(m.Method)) // its answer would be waited for
		case notify != nil:
			notify(m.Method, m.Params)
		}
	}
	if rest.N <= 0 {
		return nil, tooMuch(limit, "bytes in an answer")
	}
	return nil, classify(ctx, broken, true)
}
