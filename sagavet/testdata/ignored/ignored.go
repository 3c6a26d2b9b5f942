// Package ignored has mistakes that are meant.
package ignored

import (
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/steps"
)

type form struct {
	Sure bool `json:"sure"`
}

var askSure = &steps.Form[form]{ID: "sure", Message: "Sure?"}

func meant(r *saga.Run) {
	//sagavet:ignore the test is about this
	_ = r.AskAll(askSure)
	_ = r.AskAll(askSure) //sagavet:ignore here too

	//sagavet:ignore two lines above do not count

	_ = r.AskAll(askSure) // want `the flow goes on after Run.AskAll`
	//sagavet:ignored
	_ = r.AskAll(askSure) // want `if it is not nil; recognise with errors.Is or errors.As what the flow itself can deal with.$`
	//sagavet:ignore
	_ = r.AskAll(askSure) // want `the flow goes on after Run.AskAll.* \(A //sagavet:ignore needs a reason.\)`
}
