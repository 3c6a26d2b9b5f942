package handshake

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// What was parked stays as it was for whoever looks at it still, while its reader asks and is answered.
func TestParkedQuestionsAreNotTheReaders(t *testing.T) {
	p := &parked{name: "reader", asked: map[string]posted{"who": {n: 1}}, wait: time.Minute}
	r := new(reader)
	p.pass(r)
	assert.Equal(t, p.asked, r.asked)
	assert.Equal(t, p.name, r.name)
	assert.Equal(t, p.wait, r.wait)
	delete(r.asked, "who")
	r.asked["sure"] = posted{n: 2}
	assert.Equal(t, map[string]posted{"who": {n: 1}}, p.asked)
}
