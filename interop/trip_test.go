package interop

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/codec"
	"github.com/mcpsaga/mcpsaga/examples/trip/booking"
	"github.com/mcpsaga/mcpsaga/examples/trip/service"
	"github.com/mcpsaga/mcpsaga/gosdk"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server"
)

// tripHost is a server with the trip tool: of one kind or the other.
type tripHost struct {
	stdio   func(context.Context, io.Reader, io.Writer) error
	handler http.Handler
}

// tripHosts make servers, by the kinds that there are.
var tripHosts = map[string]func(*codec.Keyset, saga.Definition) (*tripHost, error){
	"ours": func(keys *codec.Keyset, tool saga.Definition) (*tripHost, error) {
		s, err := server.New(server.Options{Tools: []saga.Definition{tool}, Keys: keys, Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			return nil, err
		}
		return &tripHost{s.ServeStdio, s.Handler()}, nil
	},
	"SDK": func(keys *codec.Keyset, tool saga.Definition) (*tripHost, error) {
		s := mcp.NewServer(&mcp.Implementation{Name: "trip", Version: "1"}, nil)
		if _, err := gosdk.Mount(s, gosdk.Options{Keys: keys, Logger: slog.New(slog.DiscardHandler)}, tool); err != nil {
			return nil, err
		}
		stdio := func(ctx context.Context, _ io.Reader, _ io.Writer) error { return s.Run(ctx, &mcp.StdioTransport{}) }
		mux := http.NewServeMux()
		mux.Handle(server.Endpoint, gosdk.NewHTTPHandler(func(*http.Request) *mcp.Server { return s }, nil))
		return &tripHost{stdio, mux}, nil
	},
}

// tripChild is the first argument of this package's test binary when it is to serve
// the tool on standard input and output. More follow: kind, keyset file, services.
const tripChild = "serve-trip"

func serveTrip(args []string) int {
	err := errors.New("wrong arguments")
	if len(args) == 5 && tripHosts[args[0]] != nil {
		err = serveTripStdio(args)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "trip:", err)
		return 1
	}
	return 0
}

func serveTripStdio(args []string) error {
	keys, err := codec.LoadKeyset(args[1])
	if err != nil {
		return err
	}
	h, err := tripHosts[args[0]](keys, booking.New(booking.Services{Hotel: args[2], Flight: args[3], Payment: args[4]}, booking.Rules{}))
	if err != nil {
		return err
	}
	return h.stdio(context.Background(), os.Stdin, os.Stdout)
}

// world is the three services of the trip, with servers for the tool.
type world struct {
	hotel, flight, payment *service.Service
	urls                   booking.Services
	keys                   string
}

func newWorld(t *testing.T) *world {
	dir := t.TempDir()
	w := &world{keys: filepath.Join(dir, "keys.json")}
	_, err := codec.CreateKeysetFile(w.keys)
	require.NoError(t, err)
	open := func(name string, price, capacity int) (*service.Service, string) {
		s, err := service.Open(context.Background(), service.Options{
			Database: filepath.Join(dir, name+".db"), Price: price, Capacity: capacity, Lifetime: 2 * booking.MaxAge,
		})
		require.NoError(t, err)
		t.Cleanup(func() { assert.NoError(t, s.Close()) })
		web := httptest.NewServer(s.Handler())
		t.Cleanup(web.Close)
		return s, web.URL
	}
	w.hotel, w.urls.Hotel = open("hotel", 9500, 60)
	w.flight, w.urls.Flight = open("flight", 21000, 8)
	w.payment, w.urls.Payment = open("payment", 1, 400000)
	return w
}

// targets are the ways to a server of a kind.
func (w *world) targets(t *testing.T, kind string) map[string]target {
	keys, err := codec.LoadKeyset(w.keys)
	require.NoError(t, err)
	h, err := tripHosts[kind](keys, booking.New(w.urls, booking.Rules{}))
	require.NoError(t, err)
	web := httptest.NewServer(h.handler)
	t.Cleanup(web.Close)
	t.Cleanup(web.CloseClientConnections)
	self, err := os.Executable()
	require.NoError(t, err)
	return map[string]target{
		"HTTP":  {URL: web.URL + server.Endpoint},
		"stdio": {Command: self, Args: []string{tripChild, kind, w.keys, w.urls.Hotel, w.urls.Flight, w.urls.Payment}, Initialize: kind == "SDK"},
	}
}

// what has become of the holds of a trip: of beds, seats and money.
type deeds struct{ Hotel, Flight, Payment string }

// deeds says for a trip what each service has: the states of holds with how much of
// them was kept. Cities and accounts are of one trip each.
func (w *world) deeds(t *testing.T, city, account string) deeds {
	of := func(s *service.Service, item string) string {
		holds, err := s.List(t.Context())
		require.NoError(t, err)
		var found []string
		for _, h := range holds {
			if strings.Contains(h.Item, item) {
				found = append(found, fmt.Sprintf("%d of %d %s", h.Kept, h.Units, h.State))
			}
		}
		return strings.Join(found, ", ")
	}
	return deeds{of(w.hotel, city), of(w.flight, city), of(w.payment, account)}
}

// journey is a trip for n, with what the user answers and what comes of it.
type journey struct {
	name      string
	n         int
	answers   []answer // after the first form, if that is accepted
	first     string   // what is said to the first form, if not accept
	cancelIn  int      // the round in which the client cancels
	text      string   // of an error; empty: a booking
	well      bool     // it is none: the user wanted it so
	paid, due string
	deeds     deeds
}

var journeys = []journey{
	{
		name: "all paid", n: 2, answers: []answer{accept(map[string]any{"pay": "all"})}, paid: "EUR 990.00", due: "EUR 0.00",
		deeds: deeds{"6 of 6 confirmed", "2 of 2 confirmed", "99000 of 99000 confirmed"},
	},
	{
		name: "a deposit", n: 1, answers: []answer{accept(map[string]any{"pay": "deposit"})}, paid: "EUR 99.00", due: "EUR 396.00",
		deeds: deeds{"3 of 3 confirmed", "1 of 1 confirmed", "9900 of 49500 confirmed"},
	},
	{name: "declined at the first question", n: 1, first: "decline", text: `Stopped: "journey" was declined.`},
	{name: "cancelled at the first question", n: 1, first: "cancel", text: `Stopped: "journey" was cancelled.`},
	{
		name: "declined at the second question", n: 2, answers: []answer{{Action: "decline"}},
		text:  "Stopped: \"decision\" was declined.\nUndone: hold-money, hold-flight, hold-hotel.",
		deeds: deeds{"0 of 6 released", "0 of 2 released", "0 of 99000 released"},
	},
	{
		name: "cancelled at the second question", n: 2, answers: []answer{{Action: "cancel"}},
		text:  "Stopped: \"decision\" was cancelled.\nUndone: hold-money, hold-flight, hold-hotel.",
		deeds: deeds{"0 of 6 released", "0 of 2 released", "0 of 99000 released"},
	},
	{
		name: "no seats left", n: 9, text: `The airline refuses: 9 of "Here to %[1]s and back, %[2]s to %[3]s" are wanted and 8 are left.` + "\nUndone: hold-hotel.",
		deeds: deeds{Hotel: "0 of 27 released"},
	},
}

// TestMountedTrip has clients book trips, or not, with the tool on our own server
// and on one of the SDK: the same is to come of it, for the user and in the
// services.
func TestMountedTrip(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var trips atomic.Int32
	for nth, c := range contenders() {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.available(t)
			for kind := range tripHosts {
				for name, at := range w.targets(t, kind) {
					t.Run(kind+" "+name, func(t *testing.T) {
						journeys := share(at, nth, journeys, func(journey) bool { return false })
						calls, cities := make([]call, len(journeys)), make([]string, len(journeys))
						for i, j := range journeys {
							cities[i] = fmt.Sprintf("City%dX", trips.Add(1))
							calls[i] = j.call(cities[i])
						}
						outcomes := c.play(t, at, calls)
						require.Len(t, outcomes, len(journeys))
						for i, j := range journeys {
							j.check(t, w, cities[i], &outcomes[i])
							assert.Equal(t, c.protocol, outcomes[i].Protocol)
						}
					})
				}
			}
		})
	}
}

// texts are the texts of the result, a line for each.
func (o *outcome) texts() string {
	var lines []string
	for _, c := range o.Result.Content {
		lines = append(lines, c.Text)
	}
	return strings.Join(lines, "\n")
}

// arrival is a day that is far enough away.
var arrival = time.Now().UTC().AddDate(0, 1, 0)

func (j *journey) call(city string) call {
	c := call{Tool: "trip", Arguments: map[string]any{"from": "Here", "account": "of " + city}, CancelIn: j.cancelIn}
	if j.first != "" {
		c.Elicit = []answer{{Action: j.first}}
		return c
	}
	first := answer{Action: "accept", Defaults: true, Content: map[string]any{"city": city, "arrival": arrival.Format(time.DateOnly), "travellers": j.n}}
	c.Elicit = append([]answer{first}, j.answers...)
	return c
}

func (j *journey) check(t *testing.T, w *world, city string, o *outcome) {
	t.Helper()
	from, to := arrival.Format(time.DateOnly), arrival.AddDate(0, 0, 3).Format(time.DateOnly)
	assert.Equal(t, j.deeds, w.deeds(t, city, "of "+city), j.name)
	require.Empty(t, o.Error, j.name)
	assert.Equal(t, j.text != "" && !j.well, o.Result.IsError, j.name)
	asked := []string{elicitation + "Where do you want to go?"}
	if j.cancelIn == 1 {
		asked = nil
	}
	if len(j.answers) > 0 {
		asked = append(asked, fmt.Sprintf("%s%s for %d, %s to %s: the hotel is EUR ", elicitation, city, j.n, from, to))
	}
	require.Len(t, o.Asked, len(asked), j.name)
	for i := range asked {
		assert.True(t, strings.HasPrefix(o.Asked[i], asked[i]), "%s: %s", j.name, o.Asked[i])
	}
	if j.text != "" {
		text := j.text
		if strings.Contains(text, "%[1]s") {
			text = fmt.Sprintf(text, city, from, to)
		}
		assert.Equal(t, text, o.texts(), j.name)
		return
	}
	var trip booking.Trip
	require.NoError(t, json.Unmarshal([]byte(o.text()), &trip), o.text())
	assert.Len(t, trip.Hotel, 8)
	assert.Len(t, trip.Flight, 8)
	trip.Hotel, trip.Flight = "", ""
	assert.Equal(t, booking.Trip{City: city, Arrival: from, Departure: to, Travellers: j.n, Paid: j.paid, Due: j.due}, trip, j.name)
}
