package interop

import (
	"fmt"
	"index/suffixarray"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/audit"
)

// strangers are not believed who they say they are.
func (s *site) strangers() {
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	for path, want := range map[string]int{"/ask/waiting": http.StatusFound, "/mcp": http.StatusUnauthorized} {
		r, err := http.NewRequestWithContext(s.t.Context(), map[string]string{"/mcp": http.MethodPost}[path], s.url+path, nil)
		require.NoError(s.t, err)
		r.Header.Set("X-Forwarded-User", approver)
		response, err := client.Do(r)
		require.NoError(s.t, err)
		_ = response.Body.Close()
		assert.Equal(s.t, want, response.StatusCode, path)
	}
}

// whoTook is the replica that has taken a turn of a caller's only saga.
func (s *site) whoTook(subject string, turn int) (replica int, saga string) {
	for i, lines := range s.audits() {
		for _, r := range lines {
			if r.Caller.Subject == subject && r.Turn == turn && r.Act == "resume" {
				return i, r.Saga
			}
		}
	}
	require.Fail(s.t, "no replica has taken the turn")
	return 0, ""
}

// replace kills a replica, and starts another in its place.
func (s *site) replace(i int) {
	require.NoError(s.t, s.replicas[i].cmd.Process.Kill())
	_ = s.replicas[i].cmd.Wait()
	s.startReplica(i)
}

func isTurn(r audit.Record) bool { return !strings.HasSuffix(r.Act, "effect") }

// fate is how a saga has ended by its audit, with the effects that were performed and undone.
type fate struct {
	who, outcome    string
	effects, undone []string
}

// endOf is what the lines of a saga say, and how many of its turns are missing or there twice. Each is its caller's.
func (s *site) endOf(lines []audit.Record) (e fate, amiss int) {
	slices.SortStableFunc(lines, func(a, b audit.Record) int { return a.Time.Compare(b.Time) })
	turns, last, keys, e := map[int]bool{}, 0, map[string]bool{}, fate{who: lines[0].Caller.Subject}
	for _, r := range lines {
		assert.Equal(s.t, audit.Caller{Issuer: s.issuer, Subject: e.who}, *r.Caller)
		switch {
		case r.Reason == "recorded" && turns[r.Turn]: // the answer to a request that was sent again
		case r.Act == "undo effect" && r.Outcome == "done" && !keys["undo "+r.Key]:
			keys["undo "+r.Key], e.undone = true, append(e.undone, r.Effects...)
		case r.Act == "effect" && r.Outcome == "done" && !keys[r.Key]:
			keys[r.Key], e.effects = true, append(e.effects, r.Effects...)
		case isTurn(r):
			if turns[r.Turn] {
				amiss++
			}
			if turns[r.Turn] = true; r.Turn > last {
				last, e.outcome = r.Turn, r.Outcome
			}
		}
	}
	return e, amiss + last - len(turns)
}

// audited: the files of all replicas together have all that the users have had done, once, and so has the ledger. In ann's saga
// it is written who has approved it.
func (s *site) audited(l *load, anns string) {
	sagas, open, amiss, ends := map[string][]audit.Record{}, 0, 0, map[string]int{}
	for _, lines := range s.audits() {
		for _, r := range lines {
			sagas[r.Saga] = append(sagas[r.Saga], r)
		}
	}
	inLedger := map[string][]audit.Record{}
	for _, r := range s.ledgerAudit() {
		inLedger[r.Saga] = append(inLedger[r.Saga], r)
	}
	for id, lines := range sagas {
		e, n := s.endOf(lines)
		amiss += n
		name := ""
		if e.outcome == "suspended" || e.outcome == "undone" { // its client was lost with the replica
			open++
			continue
		}
		for _, w := range wishes {
			if slices.Equal(w.effects, e.effects) && len(w.un) == len(e.undone) && (e.outcome == "done") == (w.un == nil) {
				name = w.name
			}
		}
		if id == anns {
			name = "ann's"
		}
		assert.NotEmpty(s.t, name, "%+v", e)
		ends[name]++
		var acts []string
		for _, r := range inLedger[id] {
			acts = append(acts, r.Act)
			assert.Equal(s.t, e.who, r.Caller.Subject)
		}
		require.NotEmpty(s.t, acts)
		assert.Equal(s.t, []bool{true, len(e.undone) > 0}, []bool{acts[len(acts)-1] == "ended", slices.Contains(acts, "undoing")}, "%v in the ledger, and %+v", acts, e)
	}
	want := map[string]int{"ann's": 1}
	for name, n := range l.ends {
		want[name] = n
	}
	assert.Equal(s.t, want, ends)
	assert.LessOrEqual(s.t, open, l.again)
	assert.LessOrEqual(s.t, amiss, travellers, "turns that a replica had taken and not written, or written and not committed, when it was killed")

	e, n := s.endOf(sagas[anns])
	assert.Equal(s.t, fate{"ann", "done", ofAnn(), nil}, e)
	assert.Zero(s.t, n)
	for where, lines := range map[string][]audit.Record{"files": sagas[anns], "ledger": inLedger[anns]} {
		var others []string
		for _, r := range lines {
			for _, a := range r.Answers {
				assert.Len(s.t, a.Digest, 32)
				if a.By != "" {
					others = append(others, a.Question+" by "+a.By)
				}
			}
		}
		assert.Equal(s.t, []string{"approve by person " + approver + " from 127.0.0.1", "agreed by event"}, others, where)
	}
}

// ofAnn are the effects of an expensive trip.
func ofAnn() []string {
	return slices.Concat(held, []string{"ask-owner", "take-money", "confirm-hotel", "confirm-flight"})
}

// metersAgree: Prometheus has of each replica what is in its audit. Of one that was killed it lacks what came after it has looked
// last, and that is returned.
func (s *site) metersAgree(killed int) (lost int) {
	for i, lines := range s.audits() {
		want, of := shown{}, fmt.Sprintf(`{instance=%q}[1h]`, s.metrics[i])
		for _, r := range lines {
			if isTurn(r) {
				want["turn "+r.Outcome]++
			} else {
				want[strings.TrimSpace(fmt.Sprint(r.Effects[0], " ", r.Act == "undo effect", map[string]string{"failed": " effect_error"}[r.Outcome]))]++
			}
		}
		got := shown{}
		settled := func() bool {
			got = s.query(`last_over_time(mcpsaga_effect_duration_seconds_count`+of+`)`, labelsOf["Effects and undos"]...)
			for outcome, n := range s.query(`last_over_time(mcpsaga_turns_total`+of+`)`, "mcpsaga_outcome") {
				got["turn "+outcome] += n
			}
			return assert.ObjectsAreEqual(want, got)
		}
		if i != killed {
			if !assert.Eventually(s.t, settled, 10*time.Second, scraped) {
				assert.Equal(s.t, want, got, s.replicas[i].name)
			}
			continue
		}
		settled()
		for what, n := range want {
			assert.GreaterOrEqual(s.t, n, got[what], what)
			lost += n - got[what]
		}
		looked := s.query(fmt.Sprintf("1000 * max_over_time(timestamp(up{instance=%q} == 1)[1h:%v])", s.metrics[i], scraped))[""]
		from := time.UnixMilli(int64(looked)).Add(-scraped) // what is written is counted a little later
		late := len(slices.DeleteFunc(slices.Clone(lines), func(r audit.Record) bool { return r.Time.Before(from) }))
		assert.LessOrEqual(s.t, lost, late, "Prometheus lacks more of %s than came since it has looked", s.replicas[i].name)
	}
	return lost
}

// discreet: what only users and tools may know is nowhere else.
func (s *site) discreet(l *load) {
	written := map[string]string{}
	for _, p := range s.replicas {
		for _, name := range []string{p.name + ".log", p.name + ".audit"} {
			raw, err := os.ReadFile(s.file(name))
			require.NoError(s.t, err)
			for line := range strings.Lines(string(raw)) {
				if !strings.Contains(line, `msg="tool failed"`) { // it has the tool's own words
					written[name] += line
				}
			}
		}
	}
	for _, at := range s.metrics {
		if response, err := http.Get("http://" + at + "/metrics"); err == nil {
			raw, _ := io.ReadAll(response.Body)
			_ = response.Body.Close()
			written[at] = string(raw)
		}
	}
	raw, err := os.ReadFile(s.file("spans.json"))
	require.NoError(s.t, err)
	written["spans"] = string(raw)
	require.Len(s.t, written, 2*len(s.replicas)+3+1) // one is gone
	for where, text := range written {
		require.NotEmpty(s.t, text, where)
		index := suffixarray.New([]byte(text))
		for secret := range l.secrets {
			assert.Empty(s.t, index.Lookup([]byte(secret), 1), "%q is in %s", secret, where)
		}
	}
}
