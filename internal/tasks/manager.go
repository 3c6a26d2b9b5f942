package tasks

import (
	"cmp"
	"errors"
	"slices"
	"time"

	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/internal/records"
	"github.com/mcpsaga/mcpsaga/internal/turns"
)

// Config configures a [Manager]. Turns is required.
type Config struct {
	// Turns takes the turns. It must have a ledger.
	Turns *turns.Runner
	// Workers is how many tasks run at once in this process while [Manager.Work] runs.
	// Default 16.
	Workers int
	// PerPrincipal is how many of them may be one principal's. Default: half of the workers,
	// and at least one.
	PerPrincipal int
	// PerTool is how many of them may be of a tool, by its name; those that it has not have
	// no limit of their own.
	PerTool map[string]int
	// Limit is how many tasks a principal may have under way. Default 1000; negative is any
	// number.
	Limit int
	// Lease is how long a task is a worker's unless that shows that it is alive; longer while the
	// store is slow. Default 10 seconds.
	Lease time.Duration
	// MaxEvents is how many progress and log events are kept of a task. Default 1000.
	MaxEvents int
	// CallsOnly has [Manager.Work] take no tasks: this process drives nothing but the calls that it
	// has begun (see [Start].Delay), or whose answers have come here.
	CallsOnly bool
	// Attempts is how many workers in a row may go down with a task before it is given up.
	// Default 5.
	Attempts int
}

// maxSlack is how long after its time to live a task is kept that nobody has ended.
const maxSlack = 30 * 24 * time.Hour

// Manager drives tasks. It is safe for concurrent use.
type Manager struct {
	Config
	book *records.Book

	clock    clock
	crew     crew
	writing  writing
	contexts writeContexts
}

var _ Viewer = (*Manager)(nil)

// New returns a manager. It fails if the runner has no ledger.
func New(c Config) (*Manager, error) {
	if c.Turns == nil || c.Turns.Records() == nil {
		return nil, errors.New("tasks: a ledger is needed")
	}
	if c.Workers <= 0 {
		c.Workers = 16
	}
	if c.PerPrincipal <= 0 {
		c.PerPrincipal = max(1, c.Workers/2)
	}
	c.Limit = cmp.Or(c.Limit, 1000)
	c.Lease = cmp.Or(c.Lease, 10*time.Second)
	c.MaxEvents = cmp.Or(c.MaxEvents, 1000)
	c.Attempts = cmp.Or(c.Attempts, 5)
	m := &Manager{Config: c, book: c.Turns.Records()}
	m.crew.init(c.Workers, c.PerPrincipal, c.PerTool)
	return m, nil
}

// offers reports whether a program may be a task.
func offers(p *engine.Program) bool { return p.Tasks.Mode != engine.TasksForbidden }

// Offered reports whether any of the programs may be a task.
func Offered(r *engine.Registry) bool {
	for _, newest := range r.Of(engine.KindTool) {
		if slices.ContainsFunc(r.Revisions(engine.KindTool, newest.Name), offers) {
			return true
		}
	}
	return false
}

// due is a time that has come, also if the clocks differ a little.
func (m *Manager) due() time.Time { return m.now().Add(-2 * notable) }

// later returns the later of two times.
func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
