package main

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
)

// generator writes states of forms that were not thought of. Names and words are mostly
// those of the dictionary, the common ones most often, and some are invented: so the tables
// learn what is left when what the dictionary has is taken away.
type generator struct {
	*rand.Rand
	names, words, values []string
}

const syllables = "al an ar be ca con da de der di en er es fi ger ha in ka la le li lo ma me mi mo na ne ni no or pa pe ra re ri ro sa se si so ta te ter ti to tra ur va ve vi wa"

var little = strings.Fields("the the the the a a of of to to and and in in for is is on with it as at by be or are from was that this you we not but have can so if no its it all one has will more than only two")

// common picks one of the words, of which those that come first are the most common.
func (g generator) common() string {
	return g.words[int(float64(len(g.words))*math.Pow(g.Float64(), 2))]
}

func (g generator) pick(from []string) string { return from[g.IntN(len(from))] }

func capital(word string) string { return strings.ToUpper(word[:1]) + word[1:] }

// invented is a word that is in no list.
func (g generator) invented() string {
	var b strings.Builder
	all := strings.Fields(syllables)
	for range 2 + g.IntN(2) {
		b.WriteString(g.pick(all))
	}
	return b.String()
}

func (g generator) name() string {
	switch g.IntN(10) {
	case 0:
		return g.common()
	case 1:
		return g.common() + capital(g.common())
	case 2:
		return g.invented()
	}
	return g.pick(g.names)
}

func (g generator) sentence() string {
	var b strings.Builder
	for i, n := 0, 6+g.IntN(16); i < n; i++ {
		w := g.common()
		switch k := g.IntN(20); {
		case k < 9:
			w = g.pick(little)
		case k == 9:
			w = g.invented()
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

func (g generator) day() string {
	return fmt.Sprintf("20%02d-%02d-%02d", 25+g.IntN(3), 1+g.IntN(12), 1+g.IntN(28))
}

func (g generator) value() string {
	switch g.IntN(16) {
	case 0, 1:
		return fmt.Sprint(g.IntN(1 << g.IntN(14)))
	case 2:
		return fmt.Sprintf("%d.%d", g.IntN(100), 1+g.IntN(99))
	case 3, 4:
		return "true"
	case 5:
		return "false"
	case 6:
		return fmt.Sprintf("%q", g.day())
	case 7:
		return fmt.Sprintf(`"%sT%02d:%02d:00Z"`, g.day(), g.IntN(24), 5*g.IntN(12))
	case 8:
		return fmt.Sprintf(`"%c%c-%d"`, 'A'+g.IntN(26), 'A'+g.IntN(26), g.IntN(100_000))
	case 9:
		return fmt.Sprintf(`"%s %s"`, capital(g.invented()), capital(g.invented()))
	case 10:
		return fmt.Sprintf("%q", g.common()+" "+g.common())
	case 11:
		return fmt.Sprintf("%q", strings.TrimSuffix(g.sentence(), "."))
	case 12:
		return fmt.Sprintf("[%q,%q]", g.common(), g.common())
	case 13:
		return fmt.Sprintf("%q", g.common())
	default:
		return fmt.Sprintf("%q", g.pick(g.values))
	}
}

func (g generator) object(fields int) string {
	parts := make([]string, fields)
	for i := range parts {
		parts[i] = fmt.Sprintf("%q:%s", g.name(), g.value())
	}
	return "{" + strings.Join(parts, ",") + "}"
}

func (g generator) answer() string {
	switch g.IntN(8) {
	case 0:
		return fmt.Sprintf(`{"role":"assistant","content":{"type":"text","text":%q},"model":%q,"stopReason":"endTurn"}`,
			g.text(1+g.IntN(3)), g.pick(g.values))
	case 1:
		return `{"action":"decline"}`
	default:
		return fmt.Sprintf(`{"action":"accept","content":%s}`, g.object(1+g.IntN(6)))
	}
}

func (g generator) state() string {
	var answers []string
	for range g.IntN(4) {
		answers = append(answers, fmt.Sprintf("%q:%s", g.name(), g.answer()))
	}
	list := strings.Join(answers, ",")
	switch g.IntN(6) {
	case 0:
		return fmt.Sprintf(`{"at":%q,"state":%s}`, g.name(), g.object(1+g.IntN(6)))
	case 1:
		return fmt.Sprintf(`{"step":%q,"args":%s,"answers":{%s}}`, g.name(), g.object(1+g.IntN(4)), list)
	case 2, 3:
		return fmt.Sprintf(`{"args":%s,"answers":{%s},%s`, g.object(1+g.IntN(5)), list, g.object(1 + g.IntN(3))[1:])
	case 4:
		return fmt.Sprintf(`{"args":%s,"done":[%s,%s],"next":%q}`, g.object(1+g.IntN(4)), g.object(1+g.IntN(4)), g.object(1+g.IntN(4)), g.name())
	default:
		return g.object(1 + g.IntN(7))
	}
}

// samples returns so many states, the same ones every time.
func samples(n int) [][]byte {
	g := generator{Rand: rand.New(rand.NewPCG(2026, 11)), words: fields("words.txt"), values: fields("values.txt")}
	for _, name := range fields("names.txt") {
		g.names = append(g.names, strings.TrimRight(name, kinds))
	}
	out := make([][]byte, n)
	for i := range out {
		out[i] = []byte(g.state())
	}
	return out
}
