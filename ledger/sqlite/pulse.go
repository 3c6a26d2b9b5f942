package sqlite

import (
	"os"
	"time"
)

// pulse tells whether others get on with the file while they have it locked: whoever writes changes it
// or the -wal file, also within one long transaction. A process that hangs changes neither.
type pulse struct {
	paths [2]string
	seen  [2]fileState
	beat  time.Time // when a change was found last
}

type fileState struct {
	size    int64
	written time.Time
}

func newPulse(path string) *pulse {
	p := &pulse{paths: [2]string{path, path + "-wal"}}
	p.idle()
	return p
}

// idle is how long nobody has written, as far as was looked.
func (p *pulse) idle() time.Duration {
	now, changed := time.Now(), p.beat.IsZero()
	for i, path := range p.paths {
		var state fileState
		if info, err := os.Stat(path); err == nil {
			state = fileState{info.Size(), info.ModTime()}
		}
		changed = changed || state != p.seen[i]
		p.seen[i] = state
	}
	if changed {
		p.beat = now
	}
	return now.Sub(p.beat)
}
