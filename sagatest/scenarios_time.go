package sagatest

import (
	"fmt"
	"time"

	"github.com/mcpsaga/mcpsaga/codec"
)

// expiries: the client comes back when its token has expired.
func (s *sweep) expiries() []scenario {
	var list []scenario
	for turn := 2; turn <= s.base.turns(); turn++ {
		list = append(list, scenario{fmt.Sprintf("the client comes back too late for turn %d", turn), func(x *trial) {
			q, ok := x.requestOf(turn)
			if !ok {
				return
			}
			x.client.rig.now = x.client.rig.now.Add(codec.DefaultTTL + codec.DefaultSkew + time.Second)
			rep := x.send(q)
			if rep.out != nil && rep.late || rep.err != nil {
				x.client.take(q, rep)
				x.last = rep
				return
			}
			x.breaks(broken{"a saga that comes too late does not go on", "", "the turn was taken", "report this: it is a fault of the test kit"})
		}, undone})
	}
	return list
}

// rotations: between two turns another key begins to seal.
func (s *sweep) rotations() []scenario {
	var list []scenario
	for turn := 2; turn <= s.base.turns(); turn++ {
		list = append(list, scenario{fmt.Sprintf("keys are rotated before turn %d", turn), func(x *trial) {
			if !x.to(turn) {
				return
			}
			keys, id, err := x.client.rig.keys.Add(codec.XAES256GCM)
			if err == nil {
				keys, err = keys.Promote(id)
			}
			if err == nil {
				x.client.rig.codec, err = codec.New(keys, codecOptions)
			}
			if err != nil {
				x.failed(err)
				return
			}
			x.play()
		}, asUndisturbed})
	}
	return list
}

// clocks: the clock jumps between two turns, no farther than tokens bear.
func (s *sweep) clocks() []scenario {
	forward, back := codec.DefaultTTL-time.Minute, codec.DefaultSkew-10*time.Second
	if s.tool.MaxAge > 0 {
		forward = min(forward, s.tool.MaxAge/2)
	}
	jumps := []struct {
		name string
		by   time.Duration
	}{{"forward", forward}, {"back", -back}}
	var list []scenario
	for turn := 2; turn <= s.base.turns(); turn++ {
		for _, j := range jumps {
			list = append(list, scenario{fmt.Sprintf("the clock jumps %s before turn %d", j.name, turn), func(x *trial) {
				if !x.to(turn) {
					return
				}
				x.client.rig.now = x.client.rig.now.Add(j.by)
				x.play()
			}, alike})
		}
	}
	return list
}
