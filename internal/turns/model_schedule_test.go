package turns

import (
	"time"

	"pgregory.net/rapid"
)

// schedule is what happens in a run, and when: clients that call, resume, repeat, fork, cancel
// and go away; servers that die, stand still and have clocks of their own; a store and effects
// that fail. The rest is worked out from Seed, so the same schedule runs in the same way, but for
// what happens at the very same moment: what was found once may have to be played again and again.
type schedule struct {
	Seed  uint64
	Skews []int // of the servers, in seconds
	// Slow: everything may take a second or two. Long: effects may take longer than a lease.
	Slow, Long bool
	Events     []event
}

// event is one of eventKinds, after a pause. What else the numbers mean depends on it.
type event struct {
	Kind    string
	Wait    time.Duration
	A, B, C int
}

var eventKinds = []string{
	"call", "call", "call", "resume", "resume", "resume", "resume", "resume", "resume", "resume", "repeat", "repeat",
	"cancel", "kill", "kill", "pause", "pause", "freeze", "outage", "unwilling", "flaky", "refuse", "forget", "late", "undo now",
}

var eventWaits = []time.Duration{
	0, time.Millisecond, 3 * time.Millisecond, 8 * time.Millisecond, 20 * time.Millisecond, 50 * time.Millisecond, time.Second, 4 * time.Second,
	9 * time.Second, 11 * time.Second, time.Minute, modelTTL, modelTTL + modelSkew, 10 * time.Minute,
}

func schedules() *rapid.Generator[schedule] {
	number := rapid.IntRange(0, 1<<16)
	one := rapid.Custom(func(t *rapid.T) event {
		return event{
			rapid.SampledFrom(eventKinds).Draw(t, "kind"), rapid.SampledFrom(eventWaits).Draw(t, "wait"),
			number.Draw(t, "a"), number.Draw(t, "b"), number.Draw(t, "c"),
		}
	})
	return rapid.Custom(func(t *rapid.T) schedule {
		return schedule{
			Seed:  rapid.Uint64().Draw(t, "seed"),
			Skews: rapid.SliceOfN(rapid.SampledFrom([]int{0, 0, 2, -2, 14, -14}), 2, 3).Draw(t, "skews"),
			Slow:  rapid.Bool().Draw(t, "slow"), Long: rapid.Bool().Draw(t, "long"),
			Events: rapid.SliceOfN(one, 3, 30).Draw(t, "events"),
		}
	})
}
