package server

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/server/internal/bounds"
)

// Rate is how often something may happen: Count times at once, and as often again in each Per, evenly. The zero Rate is
// any rate.
type Rate struct {
	Count int
	Per   time.Duration
}

var units = map[time.Duration]string{time.Second: "s", time.Minute: "m", time.Hour: "h"}

// UnmarshalText implements [encoding.TextUnmarshaler]. It reads a rate such as 10/s, 600/m, 5/h or 20/10s; 0 is the zero
// Rate.
func (r *Rate) UnmarshalText(text []byte) error {
	count, per, _ := strings.Cut(string(text), "/")
	for _, unit := range units {
		if per == unit {
			per = "1" + per
		}
	}
	n, err := strconv.Atoi(count)
	d, wrong := time.ParseDuration(per)
	switch read := (Rate{n, d}); {
	case string(text) == "0":
		*r = Rate{}
	case err != nil, wrong != nil, n <= 0, d <= 0:
		return fmt.Errorf("%q is no rate such as 10/s, 600/m or 20/10s, or 0 for any", text)
	default:
		*r = read
	}
	return nil
}

// String returns what UnmarshalText reads.
func (r Rate) String() string {
	if r == (Rate{}) {
		return "0"
	}
	per, ok := units[r.Per]
	if !ok {
		per = r.Per.String()
	}
	return strconv.Itoa(r.Count) + "/" + per
}

// bound is the rate as gates have it.
func (r Rate) bound() (bounds.Rate, error) {
	if r != (Rate{}) && (r.Count <= 0 || r.Per <= 0) {
		return bounds.Rate{}, fmt.Errorf("the rate %d per %v is never: both are positive, or zero for any rate", r.Count, r.Per)
	}
	return bounds.Rate(r), nil
}

// gate is what takes up the requests of a server with these tools.
func (o *Options) gate(tools *engine.Registry) (*bounds.Gate, error) {
	caller, err := o.CallerRate.bound()
	if err != nil {
		return nil, fmt.Errorf("server: Options.CallerRate: %w", err)
	}
	rates := make(map[string]bounds.Rate)
	for name, rate := range o.ToolRates {
		if tools.Find(engine.KindTool, name) == nil {
			return nil, fmt.Errorf("server: Options.ToolRates has %q, which is no tool of this server's", name)
		}
		if rates[name], err = rate.bound(); err != nil {
			return nil, fmt.Errorf("server: Options.ToolRates of %q: %w", name, err)
		}
	}
	return bounds.New(bounds.Config{Caller: caller, Tools: rates, Places: o.MaxTurns, Now: o.Now}), nil
}
