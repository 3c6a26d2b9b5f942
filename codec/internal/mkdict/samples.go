package main

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

// The samples teach the dictionary how often which character and which length
// occurs, not what is written: they are put together from the pools below by a
// generator with a fixed seed.
var (
	words = strings.Fields(`account add after agree allow almost alternative amount answer apply archive area arrive
		available average balance because become before begin best better between bill block book bring budget build
		button calendar capacity careful case change charge check choose city clear close code collect come common
		company compare complete concern connect consider contact contain cost could cover create current customer
		daily data date decide deliver depend describe design detail develop different direct discuss document early
		easy effect either email enough ensure enter error event every example expect expensive experience explain
		extra failure family feature feedback field figure final find follow forward found free full future general
		give group grow guest handle happen have help high hold hour hotel however idea image important improve
		include increase inform inside issue item join keep kind large later lead learn leave less level like limit
		list little local location long lower main maintain make manage market matter mean measure meet member method
		middle minute model modern money month most move much must name near necessary need network never next night
		normal note notice number offer office often only open option order other outside over owner page part pay
		people perhaps period person phone place plan point policy possible prefer prepare present price primary
		probably problem process product project promise provide public question quick quite rather reach read ready
		really reason receive recent reduce refund region regular release remain remember remove repeat replace reply
		report request require reserve result return review right risk room route rule sample save schedule search
		season second section secure seem select send separate serve server service several share short should show
		side similar simple since single size small some soon source special spend staff stage standard start state
		station stay step still stop storage store street strong subject such suggest summer supply support sure
		switch system table take talk task team tell term test than that their them then there these they thing think
		this though three through ticket time today together tomorrow tonight total touch toward track trade train
		transfer travel trouble trust under understand unless until update upon user usual value version very view
		visit wait walk want warm watch water weather week well what when where whether which while white whole will
		window winter wish with within without work world worry would write year young your zero`)
	little  = strings.Fields("the the the the a a of of to to and and in in for is is on with it as at by be or are from was that this you we not but have can")
	names   = strings.Fields("id user name email city region status amount currency priority title reason target count date start end notes team branch version environment quantity product address phone plan category summary url type mode level limit path format language confirm notify enabled owner due total price rooms guests")
	steps   = strings.Fields("start confirm details choose dates payment review advice target approve shipping contact summary finish plan options upload verify schedule assign draft publish")
	choices = strings.Fields("small medium large low normal high production staging main basic standard premium economy daily weekly monthly yes no EUR USD card invoice pending approved")
)

// generator writes sample states.
type generator struct{ *rand.Rand }

func samples(n int) [][]byte {
	g := generator{rand.New(rand.NewPCG(2026, 11))}
	out := make([][]byte, n)
	for i := range out {
		out[i] = []byte(g.state())
	}
	return out
}

func (g generator) pick(from []string) string { return from[g.IntN(len(from))] }

func capital(word string) string { return strings.ToUpper(word[:1]) + word[1:] }

func (g generator) sentence() string {
	var b strings.Builder
	for i, n := 0, 6+g.IntN(14); i < n; i++ {
		w := g.pick(words)
		if g.IntN(5) < 2 {
			w = g.pick(little)
		}
		if i == 0 {
			w = capital(w)
		} else {
			b.WriteByte(' ')
		}
		b.WriteString(w)
		if i > 2 && i < n-2 && g.IntN(9) == 0 {
			b.WriteByte(',')
		}
	}
	return b.String() + "."
}

func (g generator) text(sentences int) string {
	all := make([]string, sentences)
	for i := range all {
		all[i] = g.sentence()
	}
	return strings.Join(all, " ")
}

func (g generator) value() string {
	switch g.IntN(11) {
	case 0, 1:
		return fmt.Sprint(g.IntN(1 << g.IntN(14)))
	case 2:
		return "true"
	case 3:
		return "false"
	case 4:
		return fmt.Sprintf("%q", g.pick(words)+"-"+g.pick(words))
	case 5:
		return fmt.Sprintf(`"20%02d-%02d-%02d"`, 25+g.IntN(3), 1+g.IntN(12), 1+g.IntN(28))
	case 6:
		return fmt.Sprintf(`"%s%s"`, g.pick(words), fmt.Sprint(g.IntN(1000)))
	case 7:
		return fmt.Sprintf("%q", strings.TrimSuffix(g.sentence(), "."))
	case 8:
		return fmt.Sprintf(`"%s %s"`, capital(g.pick(words)), capital(g.pick(words)))
	default:
		return fmt.Sprintf("%q", g.pick(choices))
	}
}

func (g generator) object(fields int) string {
	var parts []string
	for _, i := range g.Perm(len(names))[:fields] {
		parts = append(parts, fmt.Sprintf("%q:%s", names[i], g.value()))
	}
	return "{" + strings.Join(parts, ",") + "}"
}

func (g generator) answer() string {
	switch g.IntN(8) {
	case 0:
		return fmt.Sprintf(`{"role":"assistant","content":{"type":"text","text":%q},"model":"%s-%d","stopReason":"endTurn"}`,
			g.text(1+g.IntN(3)), g.pick(words), g.IntN(10))
	case 1:
		return `{"action":"decline"}`
	default:
		return fmt.Sprintf(`{"action":"accept","content":%s}`, g.object(1+g.IntN(4)))
	}
}

func (g generator) state() string {
	var answers []string
	for _, i := range g.Perm(len(steps))[:g.IntN(4)] {
		answers = append(answers, fmt.Sprintf("%q:%s", steps[i], g.answer()))
	}
	list := strings.Join(answers, ",")
	switch g.IntN(4) {
	case 0:
		return fmt.Sprintf(`{"at":%q,"state":%s}`, g.pick(steps), g.object(1+g.IntN(6)))
	case 1:
		return fmt.Sprintf(`{"step":%q,"args":%s,"answers":{%s}}`, g.pick(steps), g.object(1+g.IntN(4)), list)
	case 2:
		return fmt.Sprintf(`{"args":%s,"done":{%s},"pos":%q}`, g.object(1+g.IntN(4)), list, g.pick(steps))
	default:
		return g.object(1 + g.IntN(7))
	}
}
