package server

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// What a trusted proxy has seen tells callers apart; what callers say does not.
func TestForwardedKey(t *testing.T) {
	key, err := ForwardedKey("127.0.0.1", "10.0.0.0/8", "fd00::/8", "::ffff:192.0.2.0/120")
	require.NoError(t, err)
	for name, test := range map[string]struct {
		remote    string
		forwarded []string
		want      string
	}{
		"the proxy's word":             {"127.0.0.1:1", []string{"203.0.113.7"}, "203.0.113.7"},
		"a caller's words before it":   {"127.0.0.1:1", []string{"198.51.100.1, 127.0.0.1,203.0.113.7"}, "203.0.113.7"},
		"in lines of their own":        {"127.0.0.1:1", []string{"198.51.100.1", "203.0.113.7"}, "203.0.113.7"},
		"nonsense before it":           {"127.0.0.1:1", []string{"x, ,203.0.113.7"}, "203.0.113.7"},
		"two proxies":                  {"127.0.0.1:1", []string{"198.51.100.1, 203.0.113.7, 10.1.2.3"}, "203.0.113.7"},
		"two proxies that add lines":   {"10.9.9.9:1", []string{"203.0.113.7", "fd00::1"}, "203.0.113.7"},
		"a private caller":             {"127.0.0.1:1", []string{"192.168.0.9"}, "192.168.0.9"},
		"with a port":                  {"127.0.0.1:1", []string{"203.0.113.7:999"}, "203.0.113.7"},
		"IPv6":                         {"[fd00::2]:1", []string{"2001:db8:1:2:3::4"}, "2001:db8:1:2::/64"},
		"IPv6 with a port":             {"127.0.0.1:1", []string{"[2001:db8:1:2:3::4]:9"}, "2001:db8:1:2::/64"},
		"IPv6 in brackets":             {"127.0.0.1:1", []string{"[2001:db8:1:2:3::4]"}, "2001:db8:1:2::/64"},
		"a proxy of a mapped network":  {"192.0.2.9:1", []string{"203.0.113.7"}, "203.0.113.7"},
		"a mapped proxy":               {"[::ffff:127.0.0.1]:1", []string{"::ffff:203.0.113.7"}, "203.0.113.7"},
		"a proxy that does not know":   {"127.0.0.1:1", []string{"203.0.113.7, unknown"}, ""},
		"a proxy that says nothing":    {"127.0.0.1:1", nil, ""},
		"a proxy of itself":            {"127.0.0.1:1", []string{"10.0.0.1"}, ""},
		"an empty line":                {"127.0.0.1:1", []string{""}, ""},
		"a caller that comes directly": {"203.0.113.9:1", []string{"198.51.100.1"}, "203.0.113.9"},
		"one nearby":                   {"192.168.0.9:1", []string{"198.51.100.1"}, ""},
		"no address":                   {"@", []string{"198.51.100.1"}, ""},
	} {
		r := &http.Request{RemoteAddr: test.remote, Header: http.Header{"X-Forwarded-For": test.forwarded}}
		assert.Equal(t, test.want, key(r), name)
	}
	began := time.Now()
	key(&http.Request{RemoteAddr: "127.0.0.1:1", Header: http.Header{"X-Forwarded-For": {strings.Repeat("10.0.0.1,", maxHeaderBytes/9)}}})
	key(&http.Request{RemoteAddr: "127.0.0.1:1", Header: http.Header{"X-Forwarded-For": {strings.Repeat("10.0.0.1,", maxHeaderBytes/9) + "10.0.0.1"}}})
	assert.Less(t, time.Since(began), time.Second)
}

func TestForwardedKeyRefuses(t *testing.T) {
	for _, proxy := range []string{"", "proxy", "10.0.0.0/33", "0.0.0.0/0", "::/0", "::ffff:0.0.0.0/96", "10.0.0.1:80", "fe80::1%eth0"} {
		_, err := ForwardedKey("127.0.0.1", proxy)
		assert.Error(t, err, proxy)
	}
}
