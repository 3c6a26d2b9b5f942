package term

import (
	"bytes"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/client"
)

// written is what a bar has written, which it may do at any time.
func written(b *Bar) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.out.(*bytes.Buffer).String()
}

func TestBar(t *testing.T) {
	var out bytes.Buffer
	b := &Bar{out: &out, width: 60}
	b.Show(client.Progress{Done: 1, Total: 4, Message: "one\x1b[2J two\nthree"})
	assert.Equal(t, "\r25% one two three\x1b[K", out.String())
	b.Show(client.Progress{Done: 2, Total: 4})
	assert.NotContains(t, out.String(), "50%", "too soon to be read")
	b.mu.Lock()
	b.next = ""
	b.last = time.Time{}
	b.mu.Unlock()
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

	b = &Bar{out: &out, name: "saga", lines: true}
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
	assert.Nil(t, NewBar(file, "saga"))
}

// What comes last is what holds until something else comes, so it is shown, though a little late; unless
// the person is asked something by then.
func TestBarShowsTheLast(t *testing.T) {
	for name, lines := range map[string]bool{"a line that changes": false, "lines": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var out bytes.Buffer
				b := &Bar{out: &out, width: 60, lines: lines}
				b.Show(client.Progress{Message: "first"})
				b.Show(client.Progress{Message: "second"})
				b.Show(client.Progress{Message: "third"})
				time.Sleep(newLine)
				synctest.Wait()
				assert.Contains(t, written(b), "third")
				assert.NotContains(t, written(b), "second")
				b.Show(client.Progress{Message: "fourth"})
				b.Show(client.Progress{Message: "fifth"})
				b.Clear()
				time.Sleep(time.Hour)
				synctest.Wait()
				assert.NotContains(t, written(b), "fifth")
			})
		})
	}
}

func TestProgressOfAToolThatSleeps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // where no second begins a new day
		soon := time.Now().Add(time.Second)
		assert.Equal(t, "the tool waits until "+soon.Format("15:04:05"), Progress(client.Progress{Until: soon}))
		later := soon.Add(48 * time.Hour)
		assert.Equal(t, "the tool waits until "+later.Format("2006-01-02 15:04"), Progress(client.Progress{Until: later}))
	})
}
