package sagatest

import (
	"errors"
	"fmt"
	"slices"
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
	list = append(s.eachTurn(1, "turn %d is delivered twice", asUndisturbed, func(x *trial, q request) {
		if x.delivers(q) && x.sameAgain(q) {
			x.play()
		}
	}), s.eachTurn(2, "turn %d is answered, and answered again with a refusal", asUndisturbed, func(x *trial, _ request) {
		other, ok := x.refusal()
		if ok && len(other.answers) > 0 && x.step() && x.spent(other) {
			x.play()
		}
	})...)
	list = append(list, s.eachTurn(2, "turn %d is delivered, refused and cancelled again after the end", asUndisturbed, func(x *trial, q request) {
		other, ok := x.refusal()
		if !ok || !x.play() {
			return
		}
		if q.token == x.requests[len(x.requests)-1].token {
			x.sameAgain(q)
		}
		x.spent(other)
		x.send(request{token: other.token, cancels: true}) // says what became of it, and does nothing
	})...)
	for turn := 2; turn <= s.base.turns; turn++ {
		if slices.ContainsFunc(s.base.calls, func(c Call) bool { return c.Turn < turn && !c.Undo && c.hook.Undoable }) { // which a ledger undoes
			list = append(list, scenario{fmt.Sprintf("the client does not come back for turn %d", turn), turn, undone, func(x *trial, q request) {
				if x.abandoned() {
					x.comesLate(q, true)
				}
			}})
		}
	}
	for _, c := range cuts(points(s.base.calls)) {
		name := "the server dies " + c.name
		list = append(list, scenario{name + ", and another one takes the turn over", c.turn, alike, func(x *trial, q request) {
			ok := x.cutOff(q, c)
			x.orphans = false // the call has a key, by which it is found again
			if ok && x.delivers(q) {
				x.play()
			}
		}})
		if c.turn > 1 {
			list = append(list, scenario{name + ", and the client does not come back", c.turn, undone, func(x *trial, q request) {
				if x.cutOff(q, c) && x.abandoned() {
					x.comesLate(q, true)
					// Whether the turn that was lost has ended the saga well, a token from
					// before it acted does not tell.
					x.orphans = x.last.err != nil && c.turn == s.base.turns
				}
			}})
		}
	}
	list = append(list, s.eachTurn(1, "which is out of reach at each operation of turn %d, one after the other", alike, func(x *trial, q request) {
		for n := 1; n <= mostTurns; n++ {
			x.client.rig.fails = n
			rep := x.send(q)
			if x.client.rig.line.ops < n || rep.err == nil {
				break
			}
			if !errors.Is(rep.err, turns.ErrLedger) {
				x.failed(rep.err)
				return
			}
			x.client.rig.clock.pass(afterLease)
		}
		if x.delivers(q) {
			x.play()
		}
	})...)
	list = append(list, scenario{"and servers whose clocks differ", 0, alike, func(x *trial, _ request) {
		x.client.rig.skew = tokens.DefaultSkew - time.Second
		x.play()
	}})
	for i := range list {
		list[i].name = "with a ledger, " + list[i].name
	}
	return list
}

// sameAgain has a request delivered that has had its response, which must be the same again.
func (x *trial) sameAgain(q request) bool {
	rep := x.send(q)
	first, again := x.client.played(x.last).asJSON()+x.last.Token, x.client.played(rep).asJSON()+rep.Token
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
	x.expire()
	if rep := x.send(request{works: true}); rep.err != nil {
		x.failed(rep.err)
		return false
	}
	return true
}

// comesLate has the client come back when its saga is over, and learn that. ends: what it learns may be that the saga
// has ended well, if its last turn was taken, and only the server died.
func (x *trial) comesLate(q request, ends bool) {
	rep := x.send(q)
	if rep.Token != "" || rep.ended && rep.Gone == "" && !ends {
		x.breaks(broken{"a saga that comes too late does not go on", "", "the turn was taken", "report this: it is a fault of the engine"})
		return
	}
	x.client.take(q, rep)
	x.last = rep
}
