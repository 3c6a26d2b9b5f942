package sagatest

import (
	"fmt"
	"time"

	"github.com/mcpsaga/mcpsaga/codec"
	"github.com/mcpsaga/mcpsaga/internal/tokens"
)

// eachTurn has one scenario for every turn from the first given: it plays by the script
// up to that turn, and then runs.
func (s *sweep) eachTurn(first int, name string, want expectation, run func(x *trial, turn int)) (list []scenario) {
	for turn := first; turn <= s.base.turns(); turn++ {
		list = append(list, scenario{fmt.Sprintf(name, turn), func(x *trial) {
			if x.to(turn) {
				run(x, turn)
			}
		}, want})
	}
	return list
}

// eachRequest is eachTurn with the turn's request by the script.
func (s *sweep) eachRequest(first int, name string, want expectation, run func(x *trial, q request)) []scenario {
	return s.eachTurn(first, name, want, func(x *trial, _ int) {
		if q, ok := x.request(); ok {
			run(x, q)
		}
	})
}

// expiries: the client comes back when its token has expired.
func (s *sweep) expiries() []scenario {
	return s.eachRequest(2, "the client comes back too late for turn %d", undone, func(x *trial, q request) {
		x.client.rig.now = x.client.rig.now.Add(tokens.DefaultTTL + tokens.DefaultSkew + time.Second)
		rep := x.send(q)
		if rep.out != nil && rep.late || rep.err != nil {
			x.client.take(q, rep)
			x.last = rep
			return
		}
		x.breaks(broken{"a saga that comes too late does not go on", "", "the turn was taken", "report this: it is a fault of the test kit"})
	})
}

// rotations: between two turns another key begins to seal.
func (s *sweep) rotations() []scenario {
	return s.eachTurn(2, "keys are rotated before turn %d", asUndisturbed, func(x *trial, _ int) {
		keys, id, err := x.client.rig.keys.Add(codec.XAES256GCM)
		if err == nil {
			keys, err = keys.Promote(id)
		}
		if err == nil {
			x.client.rig.codec, err = tokens.New(keys, codecOptions)
		}
		if err != nil {
			x.failed(err)
			return
		}
		x.play()
	})
}

// clocks: the clock jumps between two turns, no farther than tokens bear.
func (s *sweep) clocks() []scenario {
	forward := tokens.DefaultTTL - time.Minute
	if s.tool.MaxAge > 0 {
		forward = min(forward, s.tool.MaxAge/2)
	}
	jump := func(where string, by time.Duration) []scenario {
		return s.eachTurn(2, "the clock jumps "+where+" before turn %d", alike, func(x *trial, _ int) {
			x.client.rig.now = x.client.rig.now.Add(by)
			x.play()
		})
	}
	return append(jump("forward", forward), jump("back", 10*time.Second-tokens.DefaultSkew)...)
}
