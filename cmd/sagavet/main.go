// Command sagavet finds mistakes in tools written with package saga that the
// compiler accepts. It takes packages as go vet does:
//
//	go run github.com/mcpsaga/mcpsaga/cmd/sagavet@latest ./...
//
// or serves go vet, which then remembers what it has found:
//
//	go build -o sagavet github.com/mcpsaga/mcpsaga/cmd/sagavet
//	go vet -vettool=./sagavet ./...
//
// "sagavet help" lists the analyzers, "sagavet help NAME" explains one. See package
// sagavet.
package main

import (
	"golang.org/x/tools/go/analysis/multichecker"

	"github.com/mcpsaga/mcpsaga/sagavet"
)

func main() { multichecker.Main(sagavet.Analyzers()...) }
