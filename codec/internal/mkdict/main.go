// Command mkdict builds a dictionary for the codec from a vocabulary and from
// samples of what is to be compressed. A dictionary that has been released is
// never built again: a new one gets a new number.
//
//	go run ./internal/mkdict -id 1 > dictionary1.zdict
package main

import (
	"bytes"
	_ "embed"
	"flag"
	"fmt"
	"os"

	"github.com/klauspost/compress/zstd"
)

//go:embed vocabulary.txt
var vocabulary []byte

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
	for line := range bytes.Lines(vocabulary) {
		if line[0] != '#' {
			history = append(history, bytes.TrimSuffix(line, []byte("\n"))...)
		}
	}
	return zstd.BuildDict(zstd.BuildDictOptions{
		ID:       id,
		Contents: samples(400),
		History:  history,
		Offsets:  [3]int{1, 4, 8},
		Level:    zstd.SpeedFastest,
	})
}
