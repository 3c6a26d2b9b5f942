package booking

import (
	"context"
	"errors"
	"time"

	"github.com/mcpsaga/mcpsaga/examples/trip/service"
	"github.com/mcpsaga/mcpsaga/saga"
)

// effects are what the tool does to the world. They are made once for a server, as they need the
// addresses of the services.
type effects struct {
	holdHotel, holdFlight, holdMoney       *saga.Effect[service.Request, service.Hold]
	takeMoney, confirmHotel, confirmFlight *saga.Effect[part, service.Hold]
}

// part is how much of a hold is to be confirmed.
type part struct {
	Key   string `json:"key"`
	Units int    `json:"units"`
}

// tryTimeout bounds one request to a service; it is asked three times.
const tryTimeout = 5 * time.Second

func newEffects(hotel, flight, payment *remote) *effects {
	e := &effects{
		holdHotel:     hold("hold-hotel", hotel),
		holdFlight:    hold("hold-flight", flight),
		holdMoney:     hold("hold-money", payment),
		takeMoney:     confirm("take-money", payment),
		confirmHotel:  confirm("confirm-hotel", hotel),
		confirmFlight: confirm("confirm-flight", flight),
	}
	// Whether the trip is booked is decided in one place, the payment service: its
	// hold is confirmed or it is released, and the first of the two wins. Before,
	// everything can be undone; after, what is left only has to be done. As its
	// Undo tells which of the two it is, a saga whose client does not know either
	// ends well.
	e.takeMoney.Irreversible = true
	e.takeMoney.Undo = func(ctx context.Context, p saga.Performed[part, service.Hold]) error {
		return released(payment.release(ctx, p.In.Key))
	}
	return e
}

func (e *effects) declared() []saga.Declared {
	return []saga.Declared{e.holdHotel, e.holdFlight, e.holdMoney, e.takeMoney, e.confirmHotel, e.confirmFlight}
}

// hold is an effect that places a hold, named by the effect's key: however often
// the effect is performed, there is one hold.
func hold(name string, s *remote) *saga.Effect[service.Request, service.Hold] {
	return &saga.Effect[service.Request, service.Hold]{
		Name:    name,
		Timeout: tryTimeout,
		Do: func(ctx context.Context, key saga.Key, in service.Request) (service.Hold, error) {
			h, err := s.place(ctx, key, in)
			// What is recorded is the hold as it was placed: a request that is
			// repeated late may find it confirmed, and must have the same result.
			h.State, h.Kept = service.Held, 0
			return h, refused(err)
		},
		// It does not matter whether the outcome of Do is known: a key under which
		// nothing is held is released too, and then nothing can be held under it.
		Undo: func(ctx context.Context, p saga.Performed[service.Request, service.Hold]) error {
			return released(s.release(ctx, string(p.Key)))
		},
	}
}

// confirm is an effect that makes a hold final. It needs no key of its own: a hold
// cannot be confirmed twice.
func confirm(name string, s *remote) *saga.Effect[part, service.Hold] {
	return &saga.Effect[part, service.Hold]{
		Name:    name,
		Timeout: tryTimeout,
		Do: func(ctx context.Context, _ saga.Key, in part) (service.Hold, error) {
			h, err := s.confirm(ctx, in.Key, in.Units)
			return h, refused(err)
		},
	}
}

// refused says of an error whether the service said no, or did not answer.
func refused(err error) error {
	if errors.As(err, new(*service.Conflict)) {
		return saga.Refused(err)
	}
	return err
}

// released says of an error that what was to be released is confirmed.
func released(err error) error {
	if errors.As(err, new(*service.Conflict)) {
		return saga.Final(err)
	}
	return err
}
