package gosdk_test

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/gosdk"
)

// A client that still writes a body that is too large is not cut off before it can read that it is.
func TestLargeBodiesAreRefusedGently(t *testing.T) {
	t.Parallel()
	h := mount(t, gosdk.Options{}, talk(1))
	url := h.serveWith(&mcp.StreamableHTTPOptions{MaxRequestBodyBytes: 4096})
	for name, header := range map[string]string{"stranger": "", "stateless": "MCP-Protocol-Version: " + modern + "\r\nMcp-Method: tools/callSaga\r\n"} {
		c, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
		require.NoError(t, err)
		defer c.Close()
		_, err = fmt.Fprintf(c, "POST / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\n%sContent-Length: %d\r\n\r\n", header, 100<<20)
		require.NoError(t, err)
		_, err = c.Write([]byte(strings.Repeat("x", 1<<20+8192)))
		require.NoError(t, err)
		response, err := http.ReadResponse(bufio.NewReader(c), nil)
		require.NoError(t, err, name)
		assert.Equal(t, http.StatusRequestEntityTooLarge, response.StatusCode, name)
		for range 3 {
			_, err = c.Write([]byte("x"))
			assert.NoError(t, err, name)
			time.Sleep(20 * time.Millisecond)
		}
	}
}
