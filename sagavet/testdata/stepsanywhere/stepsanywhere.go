// Package stepsanywhere has prompts, resources and machines of the same types that are defined in
// all kinds of ways. None of them hides what is wrong with another.
package stepsanywhere

import (
	"maps"

	"github.com/mcpsaga/mcpsaga/saga"
)

type (
	none   struct{}
	turn   = saga.Turn[none, none]
	list   = saga.Steps[none, none]
	tool   = saga.Machine[none, none]
	prompt = saga.Prompt[none, none]
)

func end(t *turn) (saga.Next, error)   { return t.Textf("done") }
func begin(t *turn) (saga.Next, error) { return t.Goto("missing") } // want `no step function "missing" .*Steps, which are is` `no step function "missing" .*Steps, which are later`

// This one must be reported whatever stands below.
var is = tool{Info: saga.Info{Name: "is"}, Start: begin, Steps: list{"is": end}}

func assigned() saga.Definition {
	p := prompt{}
	p.Info = saga.Info{Name: "assigned"}
	p.Start = func(t *turn) (saga.Next, error) { return t.Goto("nowhere") } // want `no step function "nowhere"`
	p.Steps = nil
	return p
}

func pointer() saga.Definition {
	p := &prompt{Machine: tool{Start: func(t *turn) (saga.Next, error) { return t.Goto("nobody") }}} // want `no step function "nobody"`
	p.Info, p.Machine.Steps = saga.Info{Name: "pointer"}, nil
	return p
}

func zero() saga.Definition {
	var p saga.Resource[none, none]
	p.Info.Name = "zero"
	p.Start = func(t *turn) (saga.Next, error) { return t.Goto("later") }
	p.Steps = list{"later": begin}
	return p
}

// What these have is not to be seen, and hides nothing of machines either.

type (
	some    struct{}
	another = saga.Prompt[some, some]
)

var besides = saga.Machine[some, some]{
	Start: func(t *saga.Turn[some, some]) (saga.Next, error) { return t.Goto("wrong") }, // want `no step function "wrong"`
}

func goes(t *saga.Turn[some, some]) (saga.Next, error) { return t.Goto("made") }

func info(name string) saga.Info { return saga.Info{Name: name} }

func made() saga.Steps[some, some] { return saga.Steps[some, some]{"made": goes} }

func from() saga.Definition {
	p := another{Machine: saga.Machine[some, some]{Info: info("from"), Start: goes}}
	p.Steps = made()
	return p
}

func helped() saga.Definition {
	p := another{Machine: saga.Machine[some, some]{Start: goes}}
	help(&p)
	return p
}

func help(p *another) {
	p.Info = info("helped")
	p.Steps = made()
	maps.Copy(p.Steps, made())
}

type own struct {
	another
	note string
}

func embedded(note string, names map[string]string) saga.Definition {
	p := own{note: note}
	p.Start, p.Steps = goes, made()
	p.Renamed = names
	p.Steps[note] = goes
	return p
}

var held = struct{ p *another }{&another{}}

func init() {
	held.p.Steps = made()
	held.p.Machine.Info = info("held")
	var r saga.Resource[some, some]
	r.Start, r.Steps = goes, made()
	fill(r.Steps)
}

func fill(l saga.Steps[some, some]) { l["filled"] = goes }
