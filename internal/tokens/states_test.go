package tokens_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

// The states below are what benchmarks and size tests measure. Flate at its
// default level shrinks them to 65, 53 and 37 %. None of their sentences is in the
// dictionary, but both were written side by side and share field names, a model's
// name and MCP's own shapes: the figures are those of states that suit it. See
// heldOut for states that were not.

// deployState is the type of the small state.
type deployState struct {
	Args struct {
		Service string `json:"service"`
	} `json:"args"`
	Answers struct {
		Target struct {
			Action  string `json:"action"`
			Content struct {
				Environment string `json:"environment"`
				Region      string `json:"region"`
				Replicas    int    `json:"replicas"`
				Confirm     bool   `json:"confirm"`
			} `json:"content"`
		} `json:"target"`
		Advice sampled `json:"advice"`
	} `json:"answers"`
	At string `json:"at"`
}

type sampled struct {
	Role    string `json:"role"`
	Content struct {
		Type string `json:"type"`
		Text string `json:"text"`
	} `json:"content"`
	Model      string `json:"model,omitempty"`
	StopReason string `json:"stopReason,omitempty"`
}

const smallState = `{"args":{"service":"checkout"},` +
	`"answers":{"target":{"action":"accept","content":{"environment":"production","region":"eu-west-1","replicas":6,"confirm":true}},` +
	`"advice":{"role":"assistant","content":{"type":"text","text":"Go ahead."},"model":"claude-sonnet-4-5","stopReason":"endTurn"}},` +
	`"at":"rollout"}`

// tripState is the type of the medium state.
type tripState struct {
	Args struct {
		Traveller string   `json:"traveller"`
		City      string   `json:"city"`
		Country   string   `json:"country"`
		Language  string   `json:"language"`
		Timezone  string   `json:"timezone"`
		StartDate string   `json:"startDate"`
		EndDate   string   `json:"endDate"`
		Interests []string `json:"interests"`
		Budget    struct {
			Amount   float64 `json:"amount"`
			Currency string  `json:"currency"`
			Strict   bool    `json:"strict"`
		} `json:"budget"`
		Notify struct {
			Email   bool `json:"email"`
			Message bool `json:"message"`
		} `json:"notify"`
	} `json:"args"`
	Answers struct {
		Dates struct {
			Action  string `json:"action"`
			Content struct {
				StartDate string `json:"startDate"`
				EndDate   string `json:"endDate"`
				Flexible  bool   `json:"flexible"`
				Reason    string `json:"reason"`
			} `json:"content"`
		} `json:"dates"`
		Lodging struct {
			Action  string `json:"action"`
			Content struct {
				Category    string   `json:"category"`
				Location    string   `json:"location"`
				Rooms       int      `json:"rooms"`
				Guests      int      `json:"guests"`
				Breakfast   bool     `json:"breakfast"`
				MaxPrice    int      `json:"maxPrice"`
				Preferences []string `json:"preferences"`
			} `json:"content"`
		} `json:"lodging"`
		Contact struct {
			Action  string `json:"action"`
			Content struct {
				Name    string `json:"name"`
				Email   string `json:"email"`
				Phone   string `json:"phone"`
				Address struct {
					Street     string `json:"street"`
					PostalCode string `json:"postalCode"`
					City       string `json:"city"`
				} `json:"address"`
				Comment string `json:"comment"`
				Confirm bool   `json:"confirm"`
			} `json:"content"`
		} `json:"contact"`
		Proposal sampled `json:"proposal"`
	} `json:"answers"`
	Holds []struct {
		Effect    string `json:"effect"`
		Status    string `json:"status"`
		Reference string `json:"reference"`
		ExpiresAt string `json:"expiresAt"`
	} `json:"holds"`
	At      string   `json:"at"`
	Pending []string `json:"pending"`
}

const mediumState = `{"args":{"traveller":"Ines Carvalho","city":"Ghent","country":"Belgium","language":"en","timezone":"Europe/Brussels","startDate":"2027-03-08","endDate":"2027-03-20","interests":["early music","canals","printing"],` +
	`"budget":{"amount":1450,"currency":"EUR","strict":false},"notify":{"email":true,"message":false}},` +
	`"answers":{"dates":{"action":"accept","content":{"startDate":"2027-03-11","endDate":"2027-03-16","flexible":true,"reason":"a colleague's farewell"}},` +
	`"lodging":{"action":"accept","content":{"category":"guesthouse","location":"Patershol","rooms":1,"guests":2,"breakfast":true,"maxPrice":135,"preferences":["lift","quiet"]}},` +
	`"contact":{"action":"accept","content":{"name":"Ines Carvalho","email":"ines.carvalho@example.org","phone":"+32 9 555 01 87",` +
	`"address":{"street":"Rua das Flores 12","postalCode":"4050-262","city":"Porto"},"comment":"Please ring after six.","confirm":true}},` +
	`"proposal":{"role":"assistant","content":{"type":"text","text":"` + mediumText + `"},"model":"claude-sonnet-4-5","stopReason":"endTurn"}},` +
	`"holds":[{"effect":"hold-hotel","status":"confirmed","reference":"HX-20481","expiresAt":"2027-01-14T18:00:00Z"},` +
	`{"effect":"hold-tickets","status":"pending","reference":"","expiresAt":"2027-01-12T09:30:00Z"}],` +
	`"at":"book","pending":["approval","payment"]}`

const mediumText = `Five days in Ghent leave room for two slow mornings, so I would not plan anything before ten. ` +
	`Take the first afternoon for the canals: the boats near the fish market run until dusk and the light is best then. ` +
	`The early music series plays in the abbey on Saturday evening; tickets were nearly gone when I looked, so I would reserve two now. ` +
	`Guesthouses in the Patershol cost between 95 and 140 euros with breakfast, and only one of them has a lift. ` +
	`All in all this comes to about 1,280 euros, which keeps a small reserve for trains and for a rainy day.`

// largeState is a transcript of questions and answers, some 33 KB.
var largeState = transcript(33_000)

// transcript writes a conversation of about so many bytes. The words are drawn
// with a long tail and little structure, as flate sees English.
func transcript(size int) string {
	g := rand.New(rand.NewPCG(1, 2))
	syllables := strings.Fields("al an ar be ca con da de der di e en er es fi for ge ha i in ing ist ka la le li lo ma me mi mo na ne ni no o or pa pe po pre pro ra re ri ro sa se si so sta ta te ter ti tion to tra u un ur va ve vi wa we wi")
	rare := make([]string, 2500)
	for i := range rare {
		for range 2 + g.IntN(3) {
			rare[i] += syllables[g.IntN(len(syllables))]
		}
	}
	common := strings.Fields("the of and to a in is that it for was on are with as at be this have from or had by but not what all were when we there can an your which their if do will each about how up out them then she many some so these would other into has more her two like him see time could no make than first been its who now people my made over did down only way find use may water long little very after words called just where most know")
	var b strings.Builder
	b.WriteString(`{"messages":[`)
	for i := 0; b.Len() < size-300; i++ {
		if i > 0 {
			b.WriteByte(',')
		}
		role := "user"
		if i%2 == 1 {
			role = "assistant"
		}
		fmt.Fprintf(&b, `{"role":%q,"content":{"type":"text","text":"`, role)
		for range 2 + g.IntN(7) {
			for w := range 7 + g.IntN(14) {
				if w > 0 {
					b.WriteByte(' ')
				}
				if g.IntN(100) < 47 {
					b.WriteString(common[int(float64(len(common))*g.Float64()*g.Float64())])
				} else {
					b.WriteString(rare[int(float64(len(rare))*g.Float64()*g.Float64())])
				}
			}
			b.WriteString(". ")
		}
		b.WriteString(`"}}`)
	}
	b.WriteString(`],"at":"answer"}`)
	return b.String()
}

// transcriptState is the type of the large state.
type transcriptState struct {
	Messages []sampled `json:"messages"`
	At       string    `json:"at"`
}
