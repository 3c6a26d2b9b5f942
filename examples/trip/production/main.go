// Command production serves the trip to users who sign in: programs by OAuth, browsers at a proxy. Where its keys, its ledger, its
// metrics and its audit are is said by flags, as for every program.
package main

import (
	"context"
	"flag"
	"time"

	"github.com/mcpsaga/mcpsaga/auth"
	"github.com/mcpsaga/mcpsaga/cmd/program"
	"github.com/mcpsaga/mcpsaga/examples/trip/booking"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server"
)

func main() {
	var services booking.Services
	rules := booking.Rules{Above: 50000, Within: 10 * time.Minute}
	flags := flag.NewFlagSet("trip", flag.ContinueOnError)
	flags.StringVar(&services.Hotel, "hotel", "", "the hotel's `URL`")
	flags.StringVar(&services.Flight, "flight", "", "the airline's `URL`")
	flags.StringVar(&services.Payment, "payment", "", "the bank's `URL`")
	flags.StringVar(&rules.Approver, "approver", "", "`WHO` approves what is expensive")
	site := flags.String("site", "", "the `URL` of the proxy before all replicas")
	issuer := flags.String("issuer", "", "the `URL` of the authorization server")
	signIn := flags.String("sign-in", "", "the `ADDRESS` from which the proxy names the user of a browser in X-Forwarded-User")
	setup := func(_ context.Context, o *server.Options) error {
		users, err := auth.NewJWT(auth.JWT{Issuer: *issuer, KeysURL: *issuer + "/jwks", Mapping: auth.Mapping{Audiences: []string{*site + server.Endpoint}}})
		if err != nil {
			return err
		}
		browsers, err := auth.NewProxy(auth.Proxy{Networks: []string{*signIn}, Issuer: *issuer, Subject: "X-Forwarded-User"})
		if err != nil {
			return err
		}
		guard, err := auth.New(auth.Options{
			Resource: *site + server.Endpoint, AuthorizationServers: []string{*issuer}, Methods: []auth.Method{users, browsers},
			FirstScopes: []string{"orders"}, Tools: map[string][]string{"trip": {"orders"}},
		})
		if err != nil {
			return err
		}
		rules.Callbacks = *site + "/events"
		o.Questions.PageURL, o.EventPath = *site+"/ask", "/events"
		o.Tools = []saga.Definition{booking.New(services, rules)}
		return guard.Secure(o)
	}
	program.Main(program.Options{Server: server.Options{Name: "trip"}, Flags: flags, Setup: setup})
}
