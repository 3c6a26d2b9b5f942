package engine

import "encoding/json"

// Description is what a [Position] holds, for people who look for the reason of
// something: support, tests, saga token explain. It says which secrets there are, and
// never what they are.
type Description struct {
	// Next is the step function that gets the answers. Flow says that it is a flow.
	Next string `json:"-"`
	Flow bool   `json:"-"`
	// Arguments are those of the call; nil if the client sends them in every turn.
	Arguments json.RawMessage `json:"arguments,omitempty"`
	// Steps are those of the last suspension.
	Steps []DescribedStep `json:"asked,omitempty"`
	// Effects are those that were begun, in their order.
	Effects []DescribedEffect `json:"effects,omitempty"`
	// Answers are what a flow has received so far, in its order.
	Answers []DescribedStep `json:"answers,omitempty"`
	// State is what a machine left for its next step function, in its encoding.
	State []byte `json:"state,omitempty"`
	// Secrets are the names of the secret fields of the state that are not empty.
	Secrets []string `json:"secrets,omitempty"`
}

// DescribedStep is a step that was asked, or a question in a flow's record.
type DescribedStep struct {
	// ID is the step's id on the wire, or the question's.
	ID string `json:"id"`
	// Answer is what has arrived, if the saga still waits for other steps; else nil.
	Answer json.RawMessage `json:"answer,omitempty"`
	// Failed says that Answer is the client's error.
	Failed bool `json:"failed,omitempty"`
	// Refused counts the answers that did not fit.
	Refused int `json:"refused,omitempty"`
}

// DescribedEffect is an effect in a saga's log.
type DescribedEffect struct {
	// Name is the effect's; N counts those of the same name from 1.
	Name string `json:"name"`
	N    int    `json:"number"`
	// Status is "begun" if it is not known how it ended, "done" or "refused".
	Status string `json:"status"`
	// Input is what it was given, Output what it returned. Problem says why it was refused.
	Input   json.RawMessage `json:"given,omitempty"`
	Output  json.RawMessage `json:"returned,omitempty"`
	Problem string          `json:"because,omitempty"`
	// Secrets are the names of the secret fields of input and output that are not
	// empty; a value that is a Secret as a whole has the name "".
	Secrets []string `json:"secrets,omitempty"`
}

// Describe returns what the position holds.
func (p *Position) Describe() (Description, error) {
	// A machine may have a step function of the flow's name, but a flow has no state.
	d := Description{Next: p.next, Flow: p.next == FlowStep && !p.apart, Arguments: p.args}
	for i := range p.pending {
		step := &p.pending[i]
		described := DescribedStep{ID: step.stepID(), Refused: step.refused}
		if step.answer != nil {
			described.Answer, described.Failed = step.answer.raw, step.answer.failed
		}
		d.Steps = append(d.Steps, described)
	}
	for _, r := range p.log.records {
		effect, err := r.describe()
		if err != nil {
			return d, err
		}
		d.Effects = append(d.Effects, effect)
	}
	var err error
	if d.Flow {
		d.Answers, err = describeRecord(p.kept)
	} else {
		d.State = p.kept
	}
	if err == nil {
		d.Secrets, err = secretNames(p.secrets)
	}
	return d, err
}

func (r *EffectRecord) describe() (DescribedEffect, error) {
	d := DescribedEffect{Name: r.name, N: r.n + 1, Status: "begun", Input: r.In.JSON}
	switch r.status {
	case effectDone:
		d.Status, d.Output = "done", json.RawMessage(r.Out.JSON)
	case effectRefused, effectRefusedAgain:
		d.Status, d.Problem = "refused", string(r.Out.JSON)
	}
	for _, part := range [][]byte{r.In.Secrets, r.Out.Secrets} {
		names, err := secretNames(part)
		if err != nil {
			return d, err
		}
		d.Secrets = append(d.Secrets, names...)
	}
	return d, nil
}

// describeRecord reads the answers in what Run.encode has written.
func describeRecord(b []byte) ([]DescribedStep, error) {
	if len(b) == 0 {
		return nil, nil
	}
	r := reader{b: b}
	for range r.count(1) {
		r.uvarint() // a time that the flow has read
	}
	answers := make([]DescribedStep, r.count(6))
	for i := range answers {
		flags := r.take(1)[0]
		answers[i].ID = string(r.bytes())
		r.take(4) // the digest of the question's words
		answers[i].Answer, answers[i].Failed = r.bytes(), flags&recordFailed != 0
	}
	return answers, r.err
}

func secretNames(b []byte) (names []string, err error) {
	for s, err := range Secrets(b) {
		if err != nil {
			return nil, err
		}
		names = append(names, s.Path)
	}
	return names, nil
}
