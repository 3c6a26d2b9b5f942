package sagavet

import "go/types"

// replayAnalyzer finds code by which a flow does something else when it runs again.
var replayAnalyzer = analyzer("sagareplay", `report the clock, chance and ids in flows

A flow runs from its beginning in every turn, and must come to the same questions
and effects each time. Time, ids and random numbers come from the Run. What is made
for a log message only is not reported.`, func(src *source) {
	v := newFlowCode(src, unsteady, func(sig *types.Signature) bool {
		results := sig.Results() // it returns nothing that could differ each time
		return results.Len() == 0 || results.Len() == 1 && types.Identical(results.At(0).Type(), errorType)
	})
	for body := range v.flowBodies() {
		v.examine(body, "does not do the same when the flow runs again", "Take time, chance and ids from the Run, and hand them on")
	}
})
