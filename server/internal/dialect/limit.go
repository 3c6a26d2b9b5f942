package dialect

import (
	"net/http"
	"sync"
	"time"

	"github.com/mcpsaga/mcpsaga/server/internal/wire"
)

// Limit bounds how many responses are open at once that may take long, in all and for each owner
// that is known: each holds a connection or a part of one.
type Limit struct {
	What            string // they are, in plural
	Most, MostOwned int

	mu    sync.Mutex
	open  int
	owned map[string]int
}

// Enter counts one in, unless there are too many. leave must be called when it has ended.
func (l *Limit) Enter(owner string) (leave func(), rerr *wire.Error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case owner != "" && l.owned[owner] >= l.MostOwned:
		return nil, wire.Refuse(http.StatusTooManyRequests, wire.CodeInvalidRequest, "this caller has too many "+l.What+" open; end some")
	case l.open >= l.Most:
		rerr := wire.Refuse(http.StatusServiceUnavailable, wire.CodeInternalError, "too many "+l.What+" are open; try again later")
		rerr.RetryAfter = time.Second
		return nil, rerr
	}
	if l.owned == nil {
		l.owned = make(map[string]int)
	}
	l.open++
	l.owned[owner]++
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.open--
		if l.owned[owner]--; l.owned[owner] == 0 {
			delete(l.owned, owner)
		}
	}, nil
}
