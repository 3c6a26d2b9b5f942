package dialect

import (
	"context"
	"slices"
	"time"

	"github.com/mcpsaga/mcpsaga/steps"
)

// Questions is what a server does with questions to users whose clients cannot ask them: see package elsewhere.
type Questions struct {
	// Force are the only routes there are, unless it is zero: then a client is asked that can be.
	Force steps.Routes
	// NoRelay: models are not trusted to pass on what their users say.
	NoRelay bool
	// Apps: the server has a form for the windows of hosts. TrustedApps names the clients whose forms may give consents.
	Apps        bool
	TrustedApps []string
	// Pages has a page for a call that waits; nil if the server has none.
	Pages Pages
}

// Trusts reports whether a client of that name may give consents by a form in its window.
func (q *Questions) Trusts(client string) bool {
	return client != "" && slices.Contains(q.TrustedApps, client)
}

// Pages has pages on which people answer what calls ask.
type Pages interface {
	// Link returns the URL of a page for a call of a principal's, named by the id of its task, which waits for
	// answers. It is good until then, and the same for as long as it is the same call.
	Link(ctx context.Context, principal, task string, until time.Time) (url string, err error)
}
