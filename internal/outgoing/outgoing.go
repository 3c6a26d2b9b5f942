// Package outgoing protects HTTP clients whose requests hold secrets for one server, and
// whose servers may be hostile or broken.
package outgoing

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
)

// maxRedirects is how many redirects in a row are followed.
const maxRedirects = 3

// CheckRedirect is for [http.Client.CheckRedirect]. It refuses redirects to another
// origin: the client of net/http takes the body there, and all headers but those few
// that it knows to be credentials. The error says where to, without a password.
func CheckRedirect(next *http.Request, via []*http.Request) error {
	if len(via) > maxRedirects || origin(next.URL) != origin(via[0].URL) {
		return fmt.Errorf("it redirects to %s, which is not followed: use that address if you trust it", next.URL.Redacted())
	}
	return nil
}

// origin is scheme, host and port.
func origin(u *url.URL) [3]string {
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	return [3]string{u.Scheme, strings.ToLower(u.Hostname()), port}
}

// IsLoopback reports whether a host is this machine.
func IsLoopback(host string) bool {
	host = strings.TrimSuffix(host, ".")
	ip := net.ParseIP(host)
	return strings.EqualFold(host, "localhost") || ip != nil && ip.IsLoopback()
}

// ErrTooLarge begins the error about a response that is larger than it may be.
var ErrTooLarge = errors.New("its answer is larger")

// ReadAll reads a response's body, which must not be larger than limit bytes. If it
// is, the error is [ErrTooLarge].
func ReadAll(body io.Reader, limit int64) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(body, limit+1))
	if err == nil && int64(len(data)) > limit {
		return nil, fmt.Errorf("%w than %d bytes", ErrTooLarge, limit)
	}
	return data, err
}
