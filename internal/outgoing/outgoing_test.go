package outgoing

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestCheckRedirect(t *testing.T) {
	request := func(address string) *http.Request {
		r, err := http.NewRequest(http.MethodPost, address, nil)
		require.NoError(t, err)
		return r
	}
	for _, c := range []struct {
		from, to string
		refused  bool
	}{
		{"https://a.example/x", "https://a.example/y?z", false},
		{"https://a.example/x", "https://A.example:443/x", false},
		{"http://a.example:80/x", "http://a.example/x", false},
		{"http://[::1]:8080/x", "http://[::1]:8080/y", false},
		{"https://a.example/x", "http://a.example/x", true},
		{"http://a.example/x", "https://a.example/x", true},
		{"https://a.example/x", "https://a.example:444/x", true},
		{"https://a.example/x", "https://b.example/x", true},
		{"https://a.example/x", "https://sub.a.example/x", true},
		{"https://a.example/x", "https://a.example.evil.example/x", true},
		{"https://a.example/x", "https://a.example@evil.example/x", true},
		{"https://a.example:80/x", "http://a.example/x", true},
	} {
		err := CheckRedirect(request(c.to), []*http.Request{request(c.from)})
		if !c.refused {
			assert.NoError(t, err, "%s to %s", c.from, c.to)
			continue
		}
		assert.ErrorContains(t, err, "it redirects to "+c.to[:13], "%s to %s", c.from, c.to)
	}
	// What counts is where the request was meant for, not where it went last.
	assert.Error(t, CheckRedirect(request("https://b.example/"), []*http.Request{request("https://a.example/"), request("https://b.example/")}))
	again := request("https://a.example/")
	assert.NoError(t, CheckRedirect(again, []*http.Request{again, again, again}))
	assert.Error(t, CheckRedirect(again, []*http.Request{again, again, again, again}), "a loop")
	assert.NotContains(t, CheckRedirect(request("https://u:hunter2@b.example/"), []*http.Request{again}).Error(), "hunter2")
}

// A host is written in any case, and may end with the dot of the root.
func TestIsLoopback(t *testing.T) {
	for host, want := range map[string]bool{
		"localhost": true, "LocalHost": true, "localhost.": true, "127.0.0.1": true, "127.9.9.9": true, "::1": true,
		"": false, ".": false, "localhost.example.com": false, "10.0.0.1": false, "::": false,
	} {
		assert.Equal(t, want, IsLoopback(host), host)
	}
}

func TestReadAll(t *testing.T) {
	data, err := ReadAll(strings.NewReader("1234"), 4)
	require.NoError(t, err)
	assert.Equal(t, "1234", string(data))
	_, err = ReadAll(strings.NewReader("12345"), 4)
	require.ErrorIs(t, err, ErrTooLarge)
	assert.EqualError(t, err, "its answer is larger than 4 bytes")
	lost := errors.New("lost")
	_, err = ReadAll(io.MultiReader(strings.NewReader("12"), failing{lost}), 4)
	assert.Equal(t, lost, err)
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }
