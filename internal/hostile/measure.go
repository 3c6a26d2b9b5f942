package hostile

import (
	"encoding/json"
	"runtime"
	"strings"
	"time"
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
	best := Cost{Name: r.Name, Size: r.Size()}
	for i := range times {
		cpu, allocated, err := measure(func() error {
			_, _, err := t.Send(r)
			return err
		})
		if err != nil {
			return best, err
		}
		if i == 0 || cpu < best.CPU {
			best.CPU = cpu
		}
		if i == 0 || allocated < best.Allocated {
			best.Allocated = allocated
		}
	}
	return best, nil
}

// Baseline is what it costs to read JSON as Go programs usually do, of the kind that
// requests usually are: what other costs are compared with.
func Baseline(times int) (Cost, error) {
	text := []byte("[" + strings.TrimSuffix(strings.Repeat(`{"id":12,"method":"tools/call","params":{"name":"a tool","arguments":{"to":"Ann","n":[1,2.5,true]}}},`, 300), ",") + "]")
	best := Cost{Name: "encoding/json", Size: len(text)}
	for i := range times {
		cpu, allocated, err := measure(func() error {
			var v any
			return json.Unmarshal(text, &v)
		})
		if err != nil {
			return best, err
		}
		if i == 0 || cpu < best.CPU {
			best.CPU, best.Allocated = cpu, allocated
		}
	}
	return best, nil
}

func measure(f func() error) (cpu time.Duration, allocated uint64, err error) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	began, err := used()
	if err != nil {
		return 0, 0, err
	}
	if err := f(); err != nil {
		return 0, 0, err
	}
	ended, err := used()
	runtime.ReadMemStats(&after)
	return ended - began, after.TotalAlloc - before.TotalAlloc, err
}
