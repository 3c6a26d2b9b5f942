package hostile_test

import (
	"encoding/json"
	"math"
	"runtime"
	"strings"
	"time"

	"github.com/mcpsaga/mcpsaga/internal/cputime"
)

// Cost is what a request cost.
type Cost struct {
	Name string
	Size int
	// CPU is the time of the processor, of all threads. Allocated are the bytes that
	// were allocated meanwhile, which the request's peak cannot exceed.
	CPU       time.Duration
	Allocated uint64
}

// PerByte is the cost of a byte of the request.
func (c Cost) PerByte() (nanoseconds, allocated float64) {
	return float64(c.CPU) / float64(c.Size), float64(c.Allocated) / float64(c.Size)
}

// Measure has a request answered, times times, and returns the least that it cost.
func (t *Target) Measure(r *Request, times int) (Cost, error) {
	return least(r.Name, r.Size(), times, func() error {
		_, _, err := t.Send(r)
		return err
	})
}

// Baseline is what it costs to read JSON as Go programs usually do, of the kind that
// requests usually are: what other costs are compared with.
func Baseline(times int) (Cost, error) {
	text := []byte("[" + strings.TrimSuffix(strings.Repeat(`{"id":12,"method":"tools/call","params":{"name":"a tool","arguments":{"to":"Ann","n":[1,2.5,true]}}},`, 300), ",") + "]")
	return least("encoding/json", len(text), times, func() error {
		var v any
		return json.Unmarshal(text, &v)
	})
}

// least is the least that something cost of so many times.
func least(name string, size, times int, f func() error) (Cost, error) {
	best := Cost{Name: name, Size: size, CPU: math.MaxInt64, Allocated: math.MaxUint64}
	var before, after runtime.MemStats
	for range times {
		runtime.ReadMemStats(&before)
		began := cputime.Used()
		if err := f(); err != nil {
			return best, err
		}
		best.CPU = min(best.CPU, cputime.Used()-began)
		runtime.ReadMemStats(&after)
		best.Allocated = min(best.Allocated, after.TotalAlloc-before.TotalAlloc)
	}
	return best, nil
}
