package schema

import (
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/mcpsaga/mcpsaga/content"
)

// What decodes itself waits for nobody, also if much of it is decoded at once.
func TestLargeValuesWithinOthers(t *testing.T) {
	type args struct {
		Blocks content.Blocks `json:"blocks"`
	}
	raw := []byte(`{"blocks":[{"type":"text","text":"` + strings.Repeat("x", 1<<20) + `"}]}`)
	began := time.Now()
	var wait sync.WaitGroup
	for range 8 {
		wait.Go(func() {
			for range 4 {
				var v args
				assert.NoError(t, Decode(raw, &v))
				assert.Len(t, v.Blocks, 1)
			}
		})
	}
	wait.Wait()
	assert.Less(t, time.Since(began), 20*time.Second)
}
