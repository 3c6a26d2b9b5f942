package interop

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/internal/gittest"
	"github.com/mcpsaga/mcpsaga/internal/longtests"
)

const (
	elicitation = "elicitation/create: "
	sampling    = "sampling/createMessage: "

	askTarget = elicitation + "Please provide the deployment target:"
	askModel  = sampling + "Is deploying to 'staging' safe right now?"

	notes = "# 1.1\n\n## Added\n\n- A second thing."
)

// play is a call with what has to come of it.
type play struct {
	name    string
	call    call
	text    string
	isError bool
	// asked is what the client is asked; of each, the beginning.
	asked []string
}

func plays() []play {
	deploy := call{Tool: "complex_tool", Arguments: map[string]any{"initial_arg": "value"}}
	with := func(c call, elicit []answer, sample ...string) call {
		c.Elicit, c.Sample = elicit, sample
		return c
	}
	staging := accept(map[string]any{"target": "staging"})
	release := call{Tool: "release_notes", Arguments: map[string]any{"repo": "repo"}}
	return []play{
		{"complex_tool", with(deploy, []answer{staging}, "Yes, it is."),
			"Deployment to staging initiated successfully based on confirmation.", false, []string{askTarget, askModel}},
		{"complex_tool, the model is against it", with(deploy, []answer{staging}, "No."),
			"Deployment to staging was not initiated: the model did not confirm it. It said: No.", true, []string{askTarget, askModel}},
		{"complex_tool, declined", with(deploy, []answer{{Action: "decline"}}),
			`Stopped: "step-elicitation-A" was declined.`, true, []string{askTarget}},
		{"complex_tool, cancelled", with(deploy, []answer{{Action: "cancel"}}),
			`Stopped: "step-elicitation-A" was cancelled.`, true, []string{askTarget}},
		{"release_notes, cancelled at the end", with(release, []answer{acceptDefaults(), {Action: "cancel"}}, notes),
			`Stopped: "review" was cancelled.`, true,
			[]string{elicitation + "Which commits", sampling, elicitation + "This is the draft."}},
		{"release_notes", with(release, []answer{acceptDefaults(), acceptDefaults()}, notes),
			"Wrote the release notes for v1.0..HEAD to RELEASE_NOTES.md.", false,
			[]string{elicitation + "Which commits", sampling, elicitation + "This is the draft."}},
		{"turns that ask nothing", with(call{Tool: "pausing", Arguments: map[string]any{}}, []answer{accept(map[string]any{"rows": 25})}),
			"Imported 25 rows.", false, []string{elicitation + "How many rows?"}},
		longTalk(),
	}
}

// longTalk goes through eight rounds. In the fifth the client is asked two things.
func longTalk() play {
	p := play{name: "eight rounds", text: "About tea you said: w1, w2, w3, w4, w5, w6, w7, w8. The model thought: Fine."}
	p.call = call{Tool: "long_talk", Arguments: map[string]any{"topic": "tea"}, Sample: []string{"Fine."}}
	for n := 1; n <= 8; n++ {
		p.call.Elicit = append(p.call.Elicit, accept(map[string]any{"word": fmt.Sprintf("w%d", n)}))
		p.asked = append(p.asked, fmt.Sprintf("%sWord %d of 8 about tea:", elicitation, n))
		if n == 5 {
			p.asked = append(p.asked, sampling+"What do you make of these words? w1, w2, w3, w4")
		}
	}
	return p
}

// writes reports whether a play ends with a file.
func (p play) writes() bool { return p.name == "release_notes" }

// TestClients has every client go through sagas to their end.
func TestClients(t *testing.T) {
	t.Parallel()
	for nth, c := range contenders() {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.available(t)
			p := startHTTP(t)
			at := map[string]target{"HTTP": {URL: p.url()}, "stdio": p.stdio()}
			if longtests.Wanted() { // to build the command takes longer than all the rest
				at["saga stdio"] = p.reference()
			}
			for name, at := range at {
				t.Run(name, func(t *testing.T) {
					makeRepository(t, p.root)
					all := plays()
					if name == "saga stdio" {
						all = all[:len(all)-2] // it has no tool that pauses, or asks so often
					}
					requireOutcomes(t, c, at, share(at, nth, all, play.writes), nil)
					written, err := os.ReadFile(filepath.Join(p.root, "repo", "RELEASE_NOTES.md"))
					require.NoError(t, err)
					assert.Equal(t, notes+"\n", string(written))
				})
			}
		})
	}
}

// TestClientsWhileServersDie kills the server, and starts another with the same
// keys, whenever it waits for an answer. On stdio, each round has a server of its
// own.
func TestClientsWhileServersDie(t *testing.T) {
	onlyIfWanted(t, "starts a server for each of many rounds")
	t.Parallel()
	for _, c := range contenders() {
		if c.stateless { // a session is a connection to one server
			t.Run(c.name, func(t *testing.T) {
				t.Parallel()
				c.available(t)
				p := startHTTP(t)
				playWhileServersDie(t, c, p, p.stdio(), lasting())
			})
		}
	}
}

// share is what the client of a number plays at a server. On stdio each play takes a process of its
// own, so there it is a third of all, besides those that all clients must play; between them, the
// clients play everything. SAGA_NIGHTLY=1 has each client play everything.
func share[P any](at target, nth int, all []P, must func(P) bool) (some []P) {
	for i, p := range all {
		if at.URL != "" || nightly || (i+nth)%3 == 0 || must(p) {
			some = append(some, p)
		}
	}
	return some
}

// lasting are the plays that go on for long enough: several rounds, one of them with
// two questions at once, turns without a question, files. The others end in the same
// rounds, but earlier. SAGA_NIGHTLY=1 has them played as well.
func lasting() []play {
	if nightly {
		return plays()
	}
	return slices.DeleteFunc(plays(), func(p play) bool { return p.isError })
}

func playWhileServersDie(t *testing.T, c contender, p *process, stdio target, plays []play) {
	between := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if err := p.restart(); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
		}
	}))
	defer between.Close()
	for name, at := range map[string]target{"HTTP": {URL: p.url()}, "stdio": stdio} {
		t.Run(name, func(t *testing.T) {
			makeRepository(t, p.root)
			requireOutcomes(t, c, at, plays, func(c *call) {
				if c.Manual = at.URL == ""; !c.Manual {
					c.Between = between.URL
				}
			})
		})
	}
	asked := 0
	for _, play := range plays {
		asked += len(play.asked)
	}
	assert.Equal(t, asked, p.restarts)
}

// requireOutcomes has a client make calls and compares what came of them.
func requireOutcomes(t *testing.T, c contender, at target, plays []play, change func(*call)) {
	t.Helper()
	calls := make([]call, len(plays))
	for i, p := range plays {
		calls[i] = p.call
		if change != nil {
			change(&calls[i])
		}
	}
	outcomes := c.play(t, at, calls)
	require.Len(t, outcomes, len(plays))
	for i, p := range plays {
		o := outcomes[i]
		assert.Empty(t, o.Error, p.name)
		assert.Equal(t, c.protocol, o.Protocol, p.name)
		assert.Equal(t, p.text, o.text(), p.name)
		assert.Equal(t, p.isError, o.Result.IsError, p.name)
		assertAsked(t, p, o.Asked)
		if calls[i].Manual {
			assert.Equal(t, rounds(p), o.Rounds, p.name)
		}
	}
}

// rounds counts the requests of a call: two questions that are asked at once have
// one answer, and a pause has none.
func rounds(p play) int {
	n := 1 + len(p.asked)
	switch p.call.Tool {
	case "long_talk":
		n--
	case "pausing":
		n += 2
	}
	return n
}

// assertAsked compares what a client was asked. Two things asked at once may be
// answered in any order.
func assertAsked(t *testing.T, p play, asked []string) {
	t.Helper()
	if !assert.Len(t, asked, len(p.asked), "%s: %v", p.name, asked) {
		return
	}
	for _, want := range p.asked {
		found := false
		for _, a := range asked {
			found = found || strings.HasPrefix(a, want)
		}
		assert.True(t, found, "%s: %q in %q", p.name, want, asked)
	}
}

// makeRepository makes a git repository with a release and a commit since then,
// in place of the one that is there.
func makeRepository(t *testing.T, root string) {
	t.Helper()
	dir := filepath.Join(root, "repo")
	require.NoError(t, os.RemoveAll(dir))
	require.NoError(t, os.MkdirAll(dir, 0o755))
	gittest.Git(t, dir, nil, "init", "-q", "-b", "master")
	for n, subject := range []string{"Add a first thing", "Add a second thing"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, fmt.Sprintf("thing%d.txt", n+1)), []byte(subject), 0o600))
		gittest.Commit(t, dir, subject, 1_790_000_000+int64(n))
		if n == 0 {
			gittest.Git(t, dir, nil, "tag", "v1.0")
		}
	}
}
