package sagavet

import (
	"go/ast"
	"go/types"
)

// replayAnalyzer finds code by which a flow does something else when it runs again.
var replayAnalyzer = analyzer("sagareplay", `report the clock, chance, ids, the order of maps and goroutines in flows

A flow runs from its beginning in every turn, and must come to the same questions
and effects each time. Time, ids and random numbers come from the Run. What is made
for a log message only is not reported.`, func(src *source) {
	v := newFlowCode(src, unsteady, func(sig *types.Signature) bool {
		results := sig.Results() // it returns nothing that could differ each time
		return results.Len() == 0 || results.Len() == 1 && types.Identical(results.At(0).Type(), errorType)
	})
	for body := range v.flowBodies() {
		v.mapOrder(body)
		v.examine(body, "does not do the same when the flow runs again", "Take time, chance and ids from the Run, and hand them on", func(n ast.Node) {
			v.report(n.Pos(), "a flow must not start goroutines: what they do has no order, so the flow may diverge from its record when it runs again",
				"Perform several effects at once with saga.DoAll, or ask several questions at once with Run.AskAll")
		})
	}
})
