package booking

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/steps"
)

// Rules say which trips the user cannot book alone: another person approves them, and then the owner of
// the account agrees at the bank. The zero value is none.
type Rules struct {
	// Approver is who approves, as the server knows people. Empty means that no one else is asked.
	Approver string
	// Above is the price, in cents, up to which no one else is asked.
	Above int
	// Within is how long each of the two has.
	Within time.Duration
	// Callbacks is the URL at which the bank reaches the server's events.
	Callbacks string
}

// verdict is the approver's form. To decline it is to refuse the trip.
type verdict struct {
	Note string `json:"note,omitempty" title:"Note" maxLength:"200"`
}

// consent is what the bank calls back with.
type consent struct {
	Amount int `json:"amount" minimum:"1"`
}

// others are the questions that the user is not asked.
type others struct {
	Rules
	approve *steps.Form[verdict]
	agreed  *steps.Event[consent]
}

func newOthers(r Rules) *others {
	return &others{
		Rules:   r,
		approve: &steps.Form[verdict]{ID: "approve", Message: "May this trip be booked?", By: steps.By{r.Approver}, Within: r.Within},
		agreed:  &steps.Event[consent]{ID: "agreed", Message: "Waiting until the account's owner agrees at the bank.", Within: r.Within},
	}
}

// agree waits for those who have to agree, with everything held: if one of them says no, or nothing in
// time, all holds are given back. It returns who has approved.
//
// The bank does not move money when the owner agrees, but when the hold is confirmed. So an owner who
// agrees too late, or a saga that ends before it knows, costs nothing.
func (b booking) agree(r *saga.Run, in Args, p plan, s stay) (string, error) {
	if b.others == nil || p.total() <= b.others.Above {
		return "", nil
	}
	o := b.others
	message := fmt.Sprintf("May %s for %d, %s to %s, be booked for %s, from the account %s?", s.City, s.Travellers, s.Arrival, s.departure, euros(p.total()), in.Account)
	if _, err := saga.Ask(r, o.approve.With(steps.Message(message))); err != nil {
		return "", err
	}
	who, _ := o.approve.AnsweredBy(r)
	handle, err := saga.Handle(r, o.agreed)
	if err != nil {
		return "", err
	}
	if _, err := saga.Do(r, b.bank.ask, request{p.money.Key, o.Callbacks + "/" + handle}); err != nil {
		return "", err
	}
	_, err = saga.Ask(r, o.agreed)
	return who, err
}

// request has the bank ask the owner of the account whose money is held, and call back.
type request struct {
	Key      string `json:"key"`
	Callback string `json:"callback"`
}

// asking returns the effect of it. There is nothing to undo: when the hold is released, the bank asks no more.
func (s *supplier) asking() *saga.Effect[request, struct{}] {
	return &saga.Effect[request, struct{}]{
		Name: "ask-owner", Timeout: tryTimeout,
		Do: func(ctx context.Context, _ saga.Key, in request) (none struct{}, err error) {
			return none, refused(s.do(ctx, http.MethodPost, in.Key, "/ask", map[string]string{"callback": in.Callback}, nil))
		},
	}
}
