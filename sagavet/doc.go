// Package sagavet finds mistakes in tools that the compiler accepts and that the
// engine can only report when a saga is under way, if at all. Run it as a command:
//
//	go run github.com/mcpsaga/mcpsaga/cmd/sagavet@latest ./...
//
// or take [Analyzers] into a command of your own:
//
//   - sagareplay: a flow that does not do the same when it runs again, as it depends
//     on the clock, chance, the order of a map or goroutines;
//   - sagaoutside: files, processes, the network, databases and the environment in a
//     flow, outside of an effect;
//   - sagasecrets: fields that are named like secrets, in states and effects, but
//     are no saga.Secret;
//   - sagacontext: code of tools that ignores its context;
//   - sagabackground: uses of a turn that may come when it has ended, or in another;
//   - sagaevents: events that cannot be delivered, or that nothing waits for.
//
// They look at one package at a time.
//
// Where an analyzer is wrong, or a mistake is meant, say why in a comment on the
// line that it names or on the line before it:
//
//	//sagavet:ignore the test is about this
//
// Without a reason the comment has no effect.
package sagavet

import "golang.org/x/tools/go/analysis"

// Analyzers returns all analyzers of this package.
func Analyzers() []*analysis.Analyzer {
	return []*analysis.Analyzer{
		replayAnalyzer, outsideAnalyzer, secretsAnalyzer, contextAnalyzer, backgroundAnalyzer, eventsAnalyzer,
	}
}
