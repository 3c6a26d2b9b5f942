package sagatest

import (
	"errors"
	"fmt"
	"time"

	"github.com/mcpsaga/mcpsaga/internal/tokens"
	"github.com/mcpsaga/mcpsaga/internal/turns"
)

// afterLease is when a turn may be taken over that was cut off, and tooLate when no token is
// good any more.
const (
	afterLease = time.Minute
	tooLate    = tokens.DefaultTTL + tokens.DefaultSkew + time.Second
)

// ledgers: what a server with a ledger promises besides.
func (s *sweep) ledgers() (list []scenario) {
	if !s.tool.Remembered() {
		return nil
	}
	add := func(scenarios []scenario) {
		for _, sc := range scenarios {
			run := sc.run
			sc.name = "with a ledger, " + sc.name
			sc.run = func(x *trial) {
				x.client.rig.newLedger()
				run(x)
			}
			list = append(list, sc)
		}
	}
	add(s.eachRequest(1, "turn %d is delivered twice", asUndisturbed, func(x *trial, q request) {
		if x.delivers(q) && x.sameAgain(q) {
			x.play()
		}
	}))
	add(s.eachTurn(2, "turn %d is answered, and answered again with a refusal", asUndisturbed, func(x *trial, _ int) {
		other, ok := x.refusal()
		if ok && len(other.answers) > 0 && x.step() && x.spent(other) {
			x.play()
		}
	}))
	add(s.eachTurn(2, "turn %d is delivered, refused and cancelled again after the end", asUndisturbed, func(x *trial, turn int) {
		other, ok := x.refusal()
		if !ok || !x.play() {
			return
		}
		if turn == len(x.requests) {
			x.sameAgain(x.requests[turn-1])
		}
		x.spent(other)
		x.send(request{token: other.token, cancels: true}) // says what became of it, and does nothing
	}))
	for turn := 2; turn <= s.base.turns(); turn++ {
		if s.lasting(turn) {
			add([]scenario{{fmt.Sprintf("the client does not come back for turn %d", turn), func(x *trial) {
				if q, ok := x.requestOf(turn); ok && x.abandoned() {
					x.comesLate(q)
				}
			}, undone}})
		}
	}
	for _, p := range points(s.base.calls) {
		for _, f := range []fault{cutBefore, cutAfter} {
			name := fmt.Sprintf("the server dies %s %s in turn %d", when[f], p.label, p.turn)
			add([]scenario{{name + ", and another one takes the turn over", func(x *trial) {
				q, ok := x.crash(p, f)
				if x.orphans = false; !ok { // the call has a key, by which it is found again
					return
				}
				if x.delivers(q) {
					x.play()
				}
			}, alike}})
			if p.turn > 1 {
				add([]scenario{{name + ", and the client does not come back", func(x *trial) {
					if q, ok := x.crash(p, f); ok && x.abandoned() {
						x.comesLate(q)
						// Whether the turn that was lost has ended the saga well, a token from
						// before it acted does not tell.
						x.orphans = x.last.err != nil && p.turn == s.base.turns()
					}
				}, undone}})
			}
		}
	}
	add(s.eachTurn(1, "which is out of reach at each operation of turn %d, one after the other", alike, func(x *trial, _ int) {
		q, ok := x.request()
		for n := 1; ok && n <= mostTurns; n++ {
			x.client.rig.fails = n
			rep := x.send(q)
			if x.client.rig.line.ops < n || rep.err == nil {
				break
			}
			if !errors.Is(rep.err, turns.ErrLedger) {
				x.failed(rep.err)
				return
			}
			x.client.rig.setNow(x.client.rig.now.Add(afterLease))
		}
		if ok && x.delivers(q) {
			x.play()
		}
	}))
	add([]scenario{{"and servers whose clocks differ", func(x *trial) {
		x.client.rig.skew = tokens.DefaultSkew - time.Second
		x.play()
	}, alike}})
	return list
}

// lasting reports whether a saga has done something before a turn that a ledger undoes.
func (s *sweep) lasting(turn int) bool {
	for _, c := range s.base.calls {
		if c.Turn < turn && !c.Undo && c.undoable {
			return true
		}
	}
	return false
}

// sameAgain has a request delivered that has had its response, which must be the same again.
func (x *trial) sameAgain(q request) bool {
	rep := x.send(q)
	first, again := x.client.played(x.last).asJSON()+x.last.token, x.client.played(rep).asJSON()+rep.token
	if rep.err != nil || first != again {
		x.breaks(broken{"a turn that is repeated has the same response", "", fmt.Sprintf("it was repeated, and failed with %v, or was answered otherwise:%s", rep.err, differ(first, again)), "report this: it is a fault of the engine"})
		return false
	}
	return true
}

// spent sends a request whose token was used with other answers.
func (x *trial) spent(q request) bool {
	var rejected *tokens.Rejected
	if rep := x.send(q); !errors.As(rep.err, &rejected) || rejected.Reason != tokens.ReasonSpent {
		x.breaks(broken{"a turn is taken once", "", fmt.Sprintf("its token was used again with other answers, and that was not refused: %v", rep.err), "report this: it is a fault of the engine"})
		return false
	}
	return true
}

// abandoned has the time of the saga pass, and a server's worker look.
func (x *trial) abandoned() bool {
	x.awake()
	x.client.rig.setNow(x.client.rig.now.Add(tooLate))
	if rep := x.send(request{works: true}); rep.err != nil {
		x.failed(rep.err)
		return false
	}
	return true
}

// comesLate has the client come back when its saga is over. What was done then is reported; it is
// that the saga has ended well if its last turn was taken, and only the server died.
func (x *trial) comesLate(q request) {
	rep := x.send(q)
	if rep.token != "" {
		x.breaks(broken{"a saga that comes too late does not go on", "", "the turn was taken", "report this: it is a fault of the engine"})
		return
	}
	x.client.take(q, rep)
	x.last = rep
}
