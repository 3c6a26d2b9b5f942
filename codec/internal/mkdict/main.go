// Command mkdict builds a dictionary for the codec from a vocabulary and from
// samples of what is to be compressed. A dictionary that has been released is
// never built again: a new one gets a new number.
//
//	go run ./internal/mkdict -id 1 > dictionary1.zdict
package main

import (
	_ "embed"
	"flag"
	"fmt"
	"os"
	"strings"

	"github.com/klauspost/compress/zstd"
)

// The parts of the history. What is needed most comes last, where referring to
// it is cheapest.
var (
	//go:embed english.txt
	english string
	//go:embed phrases.txt
	phrases string
	//go:embed vocabulary.txt
	vocabulary string
)

func main() {
	id := flag.Uint("id", 1, "number of the dictionary")
	flag.Parse()
	dictionary, err := build(uint32(*id))
	if err == nil {
		_, err = os.Stdout.Write(dictionary)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "mkdict:", err)
		os.Exit(1)
	}
}

// build returns a dictionary whose history is the vocabulary, and whose entropy
// tables are those that suit the samples.
func build(id uint32) ([]byte, error) {
	var history []byte
	for _, word := range strings.Fields(english) {
		history = append(append(history, ' '), word...)
	}
	history = append(history, ' ')
	for line := range strings.Lines(phrases + vocabulary) {
		if line[0] != '#' {
			history = append(history, strings.TrimSuffix(line, "\n")...)
		}
	}
	return zstd.BuildDict(zstd.BuildDictOptions{
		ID:       id,
		Contents: samples(400),
		History:  history,
		Offsets:  [3]int{1, 4, 8},
		Level:    zstd.SpeedBetterCompression,
	})
}
