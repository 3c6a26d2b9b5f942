// A program that serves no tools on stdio.
package main

import (
	"context"
	"log"
	"os"

	"github.com/mcpsaga/mcpsaga/codec"
	"github.com/mcpsaga/mcpsaga/server"
)

func main() {
	keys, err := codec.NewKeyset()
	if err != nil {
		log.Fatal(err)
	}
	s, err := server.New(server.Options{Keys: keys})
	if err != nil {
		log.Fatal(err)
	}
	if err := s.ServeStdio(context.Background(), os.Stdin, os.Stdout); err != nil {
		log.Fatal(err)
	}
}
