package doccheck

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

// mostWords are how many words documents may have, fenced code apart: each in which newcomers
// and authors read the most, and all together. Say a thing once, and link to it.
var mostWords = map[string]int{
	"README.md": 619, "ARCHITECTURE.md": 1420, "docs/write.md": 3607, "docs/security.md": 3695,
}

const mostWordsTogether = 35_960

func TestWordsAreCounted(t *testing.T) {
	sum := 0
	for _, name := range documents(t) {
		n := len(strings.Fields(withoutCode(read(t, name))))
		sum += n
		if most := mostWords[name]; most != 0 {
			assert.LessOrEqual(t, n, most, "words of %s", name)
		}
		t.Logf("%s: %d", name, n)
	}
	t.Logf("together: %d", sum)
	assert.LessOrEqual(t, sum, mostWordsTogether, "words of all documents")
}
