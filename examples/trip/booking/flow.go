package booking

import (
	"errors"
	"fmt"
	"time"

	"github.com/mcpsaga/mcpsaga/examples/trip/service"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/steps"
)

// booking is the flow with the suppliers that it uses.
type booking struct {
	hotel, airline, bank *supplier
	others               *others // nil if no one else is asked
}

// run is the whole conversation. It runs three times for one trip: until the first
// question, from the beginning until the second, and from the beginning to the end; more
// often if others have to agree.
// What was answered or performed in an earlier run is returned from the record.
//
// As a saga.Machine it would be three step functions: start asks for the journey;
// "journey" holds everything, keeps the holds in the state and asks for the decision;
// "decided" takes the money and confirms. The effects would be the same. The token
// would hold the state, and not every answer and every result.
func (b booking) run(r *saga.Run, in Args) (Trip, error) {
	j, err := saga.Ask(r, askJourney)
	if err != nil {
		return Trip{}, err
	}
	stay, err := j.stay(r.Now())
	if err != nil {
		return Trip{}, err
	}
	p, err := b.hold(r, in, stay)
	if err != nil {
		return Trip{}, err
	}
	d, err := saga.Ask(r, p.question(stay))
	if err != nil {
		return Trip{}, err // a trip that is declined here gives all holds back
	}
	approver, err := b.agree(r, in, p, stay)
	if err != nil {
		return Trip{}, err
	}
	if err := b.book(r, p, d.Pay); err != nil {
		return Trip{}, err
	}
	now := p.now(d.Pay)
	return Trip{
		City: stay.City, Arrival: stay.Arrival, Departure: stay.departure, Travellers: stay.Travellers,
		Hotel: reference(p.hotel), Flight: reference(p.flight), Paid: euros(now), Due: euros(p.total() - now),
		Approver: approver,
	}, nil
}

// plan is what is held for a trip.
type plan struct{ hotel, flight, money service.Hold }

// hold holds everything that the trip needs, the money too: after the last question
// nothing must be missing. The money is held last, so it is the first to be undone; if
// it cannot be undone, because it was taken, the hotel and the flight are not released
// either.
func (b booking) hold(r *saga.Run, in Args, s stay) (p plan, err error) {
	id := r.ID().String()
	p.hotel, err = do(r, "hotel", b.hotel.hold, service.Request{
		Item: fmt.Sprintf("%s, %s to %s", s.City, s.Arrival, s.departure), Units: s.Travellers * s.Nights, Reference: id,
	})
	if err != nil {
		return p, err
	}
	p.flight, err = do(r, "airline", b.airline.hold, service.Request{
		Item: fmt.Sprintf("%s to %s and back, %s to %s", in.From, s.City, s.Arrival, s.departure), Units: s.Travellers, Reference: id,
	})
	if err != nil {
		return p, err
	}
	p.money, err = do(r, "bank", b.bank.hold, service.Request{Item: in.Account, Units: p.total(), Reference: id})
	return p, err
}

// book takes the money and confirms what it is for, in this order. Before, all can be
// given back. After, the holds only have to be confirmed, which a hold that has not
// expired never refuses. If a service does not answer, that is done when the same turn
// is taken again.
func (b booking) book(r *saga.Run, p plan, pay string) error {
	if _, err := do(r, "bank", b.bank.confirm, part{p.money.Key, p.now(pay)}); err != nil {
		return err
	}
	if _, err := do(r, "hotel", b.hotel.confirm, part{p.hotel.Key, p.hotel.Units}); err != nil {
		return err
	}
	_, err := do(r, "airline", b.airline.confirm, part{p.flight.Key, p.flight.Units})
	return err
}

// do performs an effect. If it fails, the error names the supplier.
func do[In any](r *saga.Run, who string, e *saga.Effect[In, service.Hold], in In) (service.Hold, error) {
	h, err := saga.Do(r, e, in)
	var failed *saga.EffectError
	switch {
	case !errors.As(err, &failed):
		return h, err
	case failed.Unknown:
		return h, saga.Fail(fmt.Sprintf("The %s does not answer.", who), err)
	}
	return h, saga.Fail(fmt.Sprintf("The %s refuses: %v.", who, failed.Err), err)
}

func (p plan) total() int { return p.hotel.Amount + p.flight.Amount }

// now is what is paid when the trip is booked.
func (p plan) now(pay string) int {
	if pay == payDeposit {
		return p.total() / 5
	}
	return p.total()
}

func (p plan) question(s stay) *steps.Form[decision] {
	until := p.hotel.Expires
	for _, h := range []service.Hold{p.flight, p.money} {
		if h.Expires.Before(until) {
			until = h.Expires
		}
	}
	return askDecision.With(
		steps.Message(fmt.Sprintf("%s for %d, %s to %s: the hotel is %s, the flights are %s, together %s. It is held for you until %s, and nothing is paid before you accept.",
			s.City, s.Travellers, s.Arrival, s.departure, euros(p.hotel.Amount), euros(p.flight.Amount), euros(p.total()), until.UTC().Format("15:04 UTC"))),
		steps.Choices("pay",
			steps.Choice{Value: payAll, Title: euros(p.now(payAll)) + " now"},
			steps.Choice{Value: payDeposit, Title: euros(p.now(payDeposit)) + " now, the rest on arrival"},
		),
	)
}

// stay is a journey with the day of departure.
type stay struct {
	journey
	departure string
}

func (j journey) stay(now time.Time) (stay, error) {
	arrival, err := time.Parse(time.DateOnly, j.Arrival)
	if err != nil {
		return stay{}, saga.Failf("%q is no day.", j.Arrival)
	}
	if arrival.Before(now.UTC().Truncate(24 * time.Hour)) {
		return stay{}, saga.Failf("The day of arrival, %s, is in the past.", j.Arrival)
	}
	return stay{j, arrival.AddDate(0, 0, j.Nights).Format(time.DateOnly)}, nil
}

func reference(h service.Hold) string { return h.Key[:8] }

func euros(cents int) string { return fmt.Sprintf("EUR %d.%02d", cents/100, cents%100) }
