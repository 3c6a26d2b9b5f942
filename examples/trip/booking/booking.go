// Package booking is the tool of the trip example: it books a hotel and a flight
// and pays for them, all or nothing.
package booking

import (
	"time"

	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/steps"
)

// MaxAge is how long a trip may take from the first question to the end. Holds must last longer, so that
// none expires between the payment and the confirmation of what was paid for.
const MaxAge = 15 * time.Minute

// Services are the URLs of the services that the tool uses.
type Services struct{ Hotel, Flight, Payment string }

// Args are the tool's arguments.
type Args struct {
	From    string `json:"from" jsonschema:"where the journey begins"`
	Account string `json:"account" jsonschema:"the account that pays"`
}

// Trip is the tool's result.
type Trip struct {
	City       string `json:"city"`
	Arrival    string `json:"arrival" jsonschema:"the day of the flight there"`
	Departure  string `json:"departure" jsonschema:"the day of the flight back"`
	Travellers int    `json:"travellers"`
	Hotel      string `json:"hotel" jsonschema:"the hotel's reference"`
	Flight     string `json:"flight" jsonschema:"the airline's reference"`
	Paid       string `json:"paid"`
	Due        string `json:"due" jsonschema:"what is to be paid on arrival"`
	Approver   string `json:"approver,omitempty" jsonschema:"who has approved it, if that was needed"`
}

type journey struct {
	City       string `json:"city" title:"City" minLength:"2" maxLength:"60"`
	Arrival    string `json:"arrival" title:"Day of arrival" format:"date"`
	Nights     int    `json:"nights" title:"Nights" minimum:"1" maximum:"30" default:"3"`
	Travellers int    `json:"travellers" title:"Travellers" minimum:"1" maximum:"9" default:"1"`
}

// decision is the second form. Its choices, with the real prices, are known only
// when it is asked.
type decision struct {
	Pay string `json:"pay" title:"Payment"`
}

const (
	payAll     = "all"
	payDeposit = "deposit"
)

var (
	askJourney  = &steps.Form[journey]{ID: "journey", Message: "Where do you want to go?"}
	askDecision = &steps.Form[decision]{ID: "decision", Message: "Do you want to book this trip?"}
)

// New returns the tool trip. With rules that name an approver its server needs what [steps.Form].By and
// [steps.Event] need.
func New(s Services, rules Rules) saga.Definition {
	b := booking{hotel: newSupplier(s.Hotel, "hotel", "confirm-hotel"), airline: newSupplier(s.Flight, "flight", "confirm-flight"), bank: newBank(s.Payment)}
	tool := saga.Flow[Args, Trip]{
		Info: saga.Info{
			Name:        "trip",
			Title:       "Book a trip",
			Description: "Books a hotel and flights there and back, and pays for them. The user chooses when and where, and confirms before anything is paid.",
			Asks:        []steps.Question{askJourney, askDecision},
			Effects:     []saga.Declared{b.hotel.hold, b.airline.hold, b.bank.hold, b.bank.confirm, b.hotel.confirm, b.airline.confirm},
			MaxAge:      MaxAge,
		},
	}
	if rules.Approver != "" {
		b.others = newOthers(rules)
		tool.Info.Asks = append(tool.Info.Asks, b.others.approve, b.others.agreed)
		tool.Info.Effects = append(tool.Info.Effects, b.bank.ask)
		// A client that knows of tasks need not wait for the others.
		tool.Info.Tasks = saga.Tasks{Mode: saga.TasksOptional, After: askDecision.ID}
	}
	tool.Run = b.run
	return tool
}
