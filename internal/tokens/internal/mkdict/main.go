// Command mkdict builds a dictionary with which the states in tokens are compressed: of
// words, phrases, names and what the protocol writes, with entropy tables that suit samples
// of states. A dictionary that has been released is never changed, as tokens refer to it: a
// new one gets a new number. In the directory internal/tokens:
//
//	go run ./internal/mkdict -id 3 > dictionary3.zdict
package main

import (
	"embed"
	"flag"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/klauspost/compress/zstd"
)

//go:embed *.txt
var lists embed.FS

func main() {
	id := flag.Uint("id", 2, "number of the dictionary")
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

// build returns a dictionary whose history is the lists, and whose entropy tables are
// those that suit the samples. What is needed most comes last, where referring to it is
// cheapest.
func build(id uint32) ([]byte, error) {
	var history strings.Builder
	words := fields("words.txt")
	slices.Reverse(words)
	for _, part := range [][]string{
		{" ", strings.Join(words, " "), " ", strings.Join(lines("values.txt"), " "), " "},
		lines("phrases.txt"), lines("protocol.txt"), members(), lines("answers.txt"),
	} {
		history.WriteString(strings.Join(part, ""))
	}
	examples, err := positions()
	if err != nil {
		return nil, err
	}
	return zstd.BuildDict(zstd.BuildDictOptions{
		ID:       id,
		Contents: append(samples(1500), examples...),
		History:  []byte(history.String()),
		Offsets:  [3]int{1, 4, 8},
		Level:    zstd.SpeedBestCompression,
	})
}

// lines returns the lines of a list, without its comments.
func lines(name string) []string {
	data, err := lists.ReadFile(name)
	if err != nil {
		panic(err) // it is part of this program
	}
	return slices.DeleteFunc(strings.Split(strings.TrimSuffix(string(data), "\n"), "\n"), func(line string) bool {
		return strings.HasPrefix(line, "#")
	})
}

func fields(name string) []string { return strings.Fields(strings.Join(lines(name), " ")) }

// kinds are what names.txt marks names with.
const kinds = "#?[{"

// members returns the names of names.txt as members of objects.
func members() []string {
	var all []string
	for _, name := range fields("names.txt") {
		after := map[byte]string{'#': "", '?': "", '[': `["`, '{': `{"`}
		begin, ok := after[name[len(name)-1]]
		if !ok {
			begin = `"`
		}
		member := `","` + strings.TrimRight(name, kinds) + `":` + begin
		if !slices.Contains(all, member) {
			all = append(all, member)
		}
	}
	return all
}

// positions returns what tokens of the examples hold.
func positions() ([][]byte, error) {
	var all [][]byte
	for _, line := range lines("positions.txt") {
		position, err := strconv.Unquote(line)
		if err != nil {
			return nil, fmt.Errorf("positions.txt: %w", err)
		}
		all = append(all, []byte(position))
	}
	return all, nil
}
