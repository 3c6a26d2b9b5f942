package saga_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"time"

	"github.com/mcpsaga/mcpsaga/codec"
	"github.com/mcpsaga/mcpsaga/ledger"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server"
	"github.com/mcpsaga/mcpsaga/steps"
)

// Somebody in finance approves a payment, on a page of the server, and not the caller.
func Example_approval() {
	type bill struct {
		Cents int `json:"cents" minimum:"1"`
	}
	type verdict struct {
		Note string `json:"note,omitempty" title:"Note" maxLength:"200"`
	}
	approve := &steps.Form[verdict]{ID: "approve", Message: "Pay?", By: steps.By{"finance"}, Within: 3 * 24 * time.Hour}
	mail := &saga.Effect[string, string]{Name: "mail", Do: func(_ context.Context, _ saga.Key, page string) (string, error) {
		fmt.Println("mailed a page:", len(page) > len("https://tools.example.com/ask/waiting/"))
		return "", nil // in production: send it, once for the key
	}}
	pay := &saga.Effect[bill, string]{Name: "pay", Irreversible: true, Do: func(_ context.Context, _ saga.Key, b bill) (string, error) {
		return fmt.Sprintf("paid %d cents", b.Cents), nil
	}}
	tool := saga.Flow[bill, string]{
		Info: saga.Info{Name: "pay", Asks: []steps.Question{approve}, Effects: []saga.Declared{mail, pay}},
		Run: func(r *saga.Run, in bill) (string, error) {
			page, err := saga.Page(r, approve)
			if err != nil {
				return "", err
			}
			if _, err := saga.Do(r, mail, page); err != nil {
				return "", err
			}
			if _, err := saga.Ask(r, approve.With(steps.Message(fmt.Sprintf("Pay %d cents?", in.Cents)))); err != nil {
				return "", err // declined, or not answered in time
			}
			who, _ := approve.AnsweredBy(r)
			paid, err := saga.Do(r, pay, in)
			return paid + ", approved by " + who, err
		},
	}
	s, closed := serveWithPages(tool)
	defer closed()
	asked := request(s, "tools/callSaga", object{"name": "pay", "arguments": bill{7000}})
	fmt.Println(answerOnPage(s, "caller"), answerOnPage(s, "fay"))
	request(s, "tools/resumeSaga", object{"sagaToken": asked.Result.SagaToken, "completedSteps": []object{}}).print()
	// Output:
	// mailed a page: true
	// nothing waits for caller; fay agrees
	// caller: paid 7000 cents, approved by fay
}

// serveWithPages returns a server whose callers are all called caller, and what closes it. In finance is fay.
func serveWithPages(tool saga.Definition) (*server.Server, func()) {
	keys, err := codec.NewKeyset()
	if err != nil {
		panic(err)
	}
	store := ledger.NewMemory(ledger.MemoryOptions{})
	s := serveWith(server.Options{
		Tools: []saga.Definition{tool}, Keys: keys, Ledger: store,
		Authenticate: func(r *http.Request) (saga.Caller, error) { // in production: a cookie of your sign-in, or a token
			if c, err := r.Cookie("who"); err == nil {
				return saga.Caller{Subject: c.Value}, nil
			}
			return saga.Caller{Subject: "caller"}, nil
		},
		Questions: server.Questions{
			PageURL: "https://tools.example.com/ask",
			Roles: func(_ context.Context, who saga.Caller) ([]string, error) {
				if who.Subject == "fay" {
					return []string{"finance"}, nil
				}
				return nil, nil
			},
		},
	})
	return s, func() { s.Close(); store.Close() }
}

var (
	pageLink = regexp.MustCompile(`href="(waiting/[\w-]+)"`)
	hidden   = regexp.MustCompile(`type="hidden" name="(\w+)" value="([^"]*)"`)
)

// answerOnPage has a person agree to what waits, as a browser does.
func answerOnPage(s *server.Server, who string) string {
	open := func(method, path string, form url.Values) string {
		r := httptest.NewRequest(method, "https://tools.example.com/"+path, strings.NewReader(form.Encode()))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.AddCookie(&http.Cookie{Name: "who", Value: who})
		w := httptest.NewRecorder()
		s.Pages().ServeHTTP(w, r)
		return w.Body.String()
	}
	link := pageLink.FindStringSubmatch(open(http.MethodGet, "waiting", nil))
	if link == nil {
		return "nothing waits for " + who + ";"
	}
	form := url.Values{"do": {"accept"}}
	for _, field := range hidden.FindAllStringSubmatch(open(http.MethodGet, link[1], nil), -1) {
		form.Set(field[1], field[2])
	}
	open(http.MethodPost, link[1], form)
	return who + " agrees"
}
