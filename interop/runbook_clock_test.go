package interop

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// A replica whose clock is ahead says so. It takes the sagas of others for expired, and others take none that it has touched,
// but have these undone.
func TestRunbookWrongClock(t *testing.T) {
	t.Parallel()
	s := newFleet(t, ledgers["PostgreSQL"](t))
	right, wrong := s.serve(), s.serve("--ahead", "1h")
	assert.Contains(t, right.get("/readyz"), `"status":"ready"`)
	assert.Regexp(t, `"status":"degraded".*"clockOff":"1h0m`, wrong.get("/readyz"))
	wrong.says(`level=ERROR msg="the clock here, or that of the ledger, is wrong" ahead=1h`)

	ofRight, first := s.call(right, "order"), s.call(wrong, "order")
	s.call(wrong, "order")
	said, code := s.answer(wrong, ofRight)
	assert.NotZero(t, code)
	assert.Contains(t, said, "came back too late and has ended.\nUndone: book.")

	wrong.kill()
	said, code = s.answer(right, first)
	assert.NotZero(t, code)
	assert.Contains(t, said, "this server's clock is behind the saga: send the same request again")
	right.says("token of the future")
	assert.Contains(t, s.ok("cancel", first, "--server", right.url), "Undone: book.")
	for _, w := range s.waiting() {
		assert.Contains(t, s.ok("ledger", "undo", w.Saga), "it is undone")
	}
	assert.Equal(t, 3, count(s.kinds(), "undone-book"))
	assert.Empty(t, s.waiting())
}
