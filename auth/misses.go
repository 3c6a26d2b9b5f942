package auth

import (
	"net/http"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/mcpsaga/mcpsaga/server"
)

// misses bounds how many bad tokens are checked, of each caller and of all: a check costs a signature, or a question to the
// issuer. Good ones are not counted, so who sends no bad ones has a check at once, while others do not use up the bound of all.
type misses struct {
	from *Checking
	mu   sync.Mutex
	all  *rate.Limiter
	of   recent[string, *rate.Limiter]
}

func newMisses(c *Checking) *misses {
	return &misses{from: c, all: rate.NewLimiter(rate.Limit(c.MaxBad), c.MaxBad), of: recent[string, *rate.Limiter]{size: max(1, c.MaxRemembered/2)}}
}

// limiters are those that hold for a request.
func (m *misses) limiters(r *http.Request) []*rate.Limiter {
	key := m.from.CallerKey(r)
	if key == "" {
		return []*rate.Limiter{m.all}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	one, ok := m.of.get(key)
	if !ok {
		one = rate.NewLimiter(rate.Limit(m.from.MaxBad)/10, m.from.MaxBad)
		m.of.put(key, one)
	}
	return []*rate.Limiter{one, m.all}
}

// allow fails if no more bad tokens are checked now: this one may be one.
func (m *misses) allow(limiters []*rate.Limiter) error {
	for _, l := range limiters {
		if l.TokensAt(m.from.Now()) < 1 {
			return server.TryAgain("too many credentials of no use have been sent: send the same request again", time.Second)
		}
	}
	return nil
}

// add counts a bad token. Those that were checked at the same time may be more than are allowed: they count for later.
func (m *misses) add(limiters []*rate.Limiter) {
	for _, l := range limiters {
		l.ReserveN(m.from.Now(), 1)
	}
}
