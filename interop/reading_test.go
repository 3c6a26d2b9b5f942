package interop

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

// TestModelsReadOn has models whose clients know nothing of parts read a result to its end, by
// an argument, with a question on the way; this module's client collects them.
func TestModelsReadOn(t *testing.T) {
	t.Parallel()
	reads := call{Tool: "reading", Arguments: map[string]any{}, Reads: true, Elicit: []answer{accept(map[string]any{"ok": true})}}
	for _, c := range contenders() {
		if strings.HasPrefix(c.name, "Go SDK") {
			continue // its tests are with package server
		}
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.available(t)
			p := startHTTP(t)
			for name, at := range map[string]target{"HTTP": {URL: p.url()}, "stdio": p.stdio()} {
				t.Run(name, func(t *testing.T) {
					o := c.play(t, at, []call{reads})[0]
					assert.Empty(t, o.Error)
					assert.Equal(t, []string{"Page 1.", "Page 2.", "The end."}, strings.Split(strings.TrimSpace(o.texts()), "\n"))
					assert.Len(t, o.Asked, 1)
				})
			}
		})
	}
}
