package client

import (
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"strconv"
	"time"
)

// hint says what to do about an HTTP status.
func hint(status int) string {
	switch status {
	case http.StatusUnauthorized:
		return "the server wants a credential; set a bearer token"
	case http.StatusForbidden:
		return "the server does not allow this caller"
	case http.StatusNotFound, http.StatusMethodNotAllowed:
		return "this is not an MCP endpoint; check the path of the URL"
	case http.StatusRequestEntityTooLarge:
		return "the arguments or answers are larger than the server accepts"
	case http.StatusTooManyRequests:
		return "the server is limiting its callers; try later"
	case http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return "the server is not available; try later"
	}
	return http.StatusText(status)
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

func isCertificateError(err error) bool {
	var certificate *tls.CertificateVerificationError
	return errors.As(err, &certificate)
}

func isDialError(err error) bool {
	var network *net.OpError
	return errors.As(err, &network) && network.Op == "dial"
}
