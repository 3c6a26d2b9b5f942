package term

import (
	"bytes"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/client"
)

func TestBar(t *testing.T) {
	var out bytes.Buffer
	b := &Bar{out: &out, width: 60}
	b.Show(client.Progress{Done: 1, Total: 4, Message: "one\x1b[2J two\nthree"})
	assert.Equal(t, "\r"+strings.Repeat("█", 6)+strings.Repeat("░", 18)+" 25% one two three\x1b[K", out.String())
	b.Show(client.Progress{Done: 2, Total: 4})
	assert.NotContains(t, out.String(), "50%", "too soon to be read")
	b.last = time.Time{}
	out.Reset()
	b.Show(client.Progress{Done: 9, Total: 4, Message: strings.Repeat("x", 10_000)})
	assert.Contains(t, out.String(), "100% xx")
	assert.Less(t, len([]rune(out.String())), 70)
	out.Reset()
	b.Clear()
	assert.Equal(t, "\r\x1b[K", out.String())
	out.Reset()
	b.Clear()
	assert.Empty(t, out.String(), "there is nothing to take away")

	b = &Bar{out: &out, lines: true}
	b.Show(client.Progress{Done: 3})
	b.Clear()
	b.Show(client.Progress{Task: &client.Task{Status: "input_required"}, Message: "waits"})
	b.Show(client.Progress{})
	assert.Equal(t, "saga: 3\nsaga: input required waits\n", out.String())

	var none *Bar
	none.Show(client.Progress{Done: 1})
	none.Clear()
	file, err := os.Open(os.DevNull)
	require.NoError(t, err)
	defer file.Close()
	assert.Nil(t, NewBar(file, os.Getenv))
}
