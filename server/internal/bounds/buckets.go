package bounds

import (
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// kept is how many buckets there are at most.
const kept = 10_000

// Rate is how often something may happen: Count times at once, and as often again in each Per. The zero Rate bounds
// nothing.
type Rate struct {
	Count int
	Per   time.Duration
}

// key says whose a bucket is. Tool is empty, or one that has a rate.
type key struct{ caller, tool string }

// buckets are those of the callers that have come lately. When there are many, those are forgotten that have not come
// since half as many others did: who comes as often as it may is not among them.
type buckets struct {
	mu           sync.Mutex
	young, older map[key]*rate.Limiter
}

// of returns a bucket, which is full if it is new. The buckets are locked.
func (b *buckets) of(k key, r Rate) *rate.Limiter {
	found := b.young[k]
	if found != nil {
		return found
	}
	if found = b.older[k]; found == nil {
		found = rate.NewLimiter(rate.Limit(float64(r.Count)/r.Per.Seconds()), r.Count)
	}
	if b.young == nil || len(b.young) >= kept/2 {
		b.young, b.older = make(map[key]*rate.Limiter), b.young
	}
	b.young[k] = found
	return found
}

// allow counts a request, unless its caller has come too often: then it says which rate that is, and when there is room
// again. What is refused counts for neither.
func (g *Gate) allow(caller, tool string) (met string, wait time.Duration) {
	c := &g.config
	if c.Caller == (Rate{}) && len(c.Tools) == 0 {
		return "", 0
	}
	now := c.Now()
	bounds := [...]struct {
		bound, tool string
		rate        Rate
	}{{CallerRate, "", c.Caller}, {ToolRate, tool, c.Tools[tool]}}
	var takes [len(bounds)]*rate.Limiter
	g.buckets.mu.Lock()
	defer g.buckets.mu.Unlock()
	for i, b := range bounds {
		if b.rate == (Rate{}) {
			continue
		}
		takes[i] = g.buckets.of(key{caller, b.tool}, b.rate)
		if wait := time.Duration((1 - takes[i].TokensAt(now)) * float64(b.rate.Per) / float64(b.rate.Count)); wait > 0 {
			return b.bound, wait
		}
	}
	for _, bucket := range takes {
		if bucket != nil {
			bucket.AllowN(now, 1)
		}
	}
	return "", 0
}
