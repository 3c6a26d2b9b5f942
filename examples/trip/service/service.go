// Package service is a small booking service with a database of its own. The trip
// example runs it three times: it holds beds, seats and money.
//
// A hold takes units of an item, such as beds in a city on certain days, for a
// while. It is then confirmed, released, or expires by itself. The caller names
// each hold with a key. What was asked under a key is answered the same however
// often it is asked, and a key that was released before anything was held is
// refused ever after: a request that was delayed cannot hold anything once its
// caller has given up.
//
//	PUT    /holds/{key}          place a hold     200, or 409 if it cannot be had
//	DELETE /holds/{key}          release it       204, or 409 if it is confirmed
//	POST   /holds/{key}/confirm  make it final    200, or 409 if it is not held
//	GET    /holds                list all holds   200
//
// Every answer is given after the database is on disk. So the process can be
// killed at any time.
package service

import (
	"errors"
	"fmt"
	"time"
)

// Request says what to hold.
type Request struct {
	// Item is what has a limited number of units.
	Item string `json:"item"`
	// Units is how many of them.
	Units int `json:"units"`
	// Reference is the caller's word for what the hold is for.
	Reference string `json:"reference"`
}

// State is what has become of a hold.
type State string

// The states of a hold. Only the first changes.
const (
	Held      State = "held"
	Confirmed State = "confirmed"
	Released  State = "released"
	Expired   State = "expired"
)

// Hold is a number of units that no one else can have.
type Hold struct {
	Key string `json:"key"`
	Request
	// Amount is the price of all units, in cents.
	Amount int   `json:"amount"`
	State  State `json:"state"`
	// Kept is how many units were confirmed; the others were given back.
	Kept int `json:"kept,omitzero"`
	// Expires is when it is released by itself, unless it is confirmed.
	Expires time.Time `json:"expires"`
}

// Conflict refuses a request for good: it changed nothing, and it would be
// refused again.
type Conflict struct {
	// Reason says why, for people.
	Reason string
}

// Error implements error.
func (c *Conflict) Error() string { return c.Reason }

func conflict(format string, args ...any) error {
	return &Conflict{fmt.Sprintf(format, args...)}
}

// Options configure a service.
type Options struct {
	// Database is the file of the database; it is created if it is missing.
	Database string
	// Price is what one unit costs, in cents.
	Price int
	// Capacity is how many units there are of each item.
	Capacity int
	// Lifetime is how long a hold lasts unless it is confirmed or released.
	Lifetime time.Duration
	// Now is the clock. Default: [time.Now].
	Now func() time.Time
}

func (o *Options) check() error {
	if o.Database == "" || o.Price <= 0 || o.Capacity <= 0 || o.Lifetime <= 0 {
		return errors.New("a service needs a database, and a price, a capacity and a lifetime above 0")
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return nil
}
