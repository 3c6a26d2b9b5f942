package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The states on which sizes are measured must not be among those that the dictionary was
// made of: none of their values is there, unless it is a word or two, and no five words in
// a row.
func TestHeldOutStatesAreNotTrainedOn(t *testing.T) {
	trained, err := os.ReadFile("../../dictionary2.zdict")
	require.NoError(t, err)
	examples, err := positions()
	require.NoError(t, err)
	all := string(trained)
	for _, sample := range append(samples(1500), examples...) {
		all += "\n" + string(sample)
	}
	require.Contains(t, all, "with your ", "this finds what is there")
	paths, err := filepath.Glob("../../testdata/heldout/*.json")
	require.NoError(t, err)
	require.Len(t, paths, 10)
	const run = 5
	looked := 0
	for _, path := range paths {
		data, err := os.ReadFile(path)
		require.NoError(t, err)
		var state any
		require.NoError(t, json.Unmarshal(data, &state))
		eachText(state, func(text string) {
			words := strings.Fields(text)
			if len(words) < run && telling.MatchString(text) && !strings.HasPrefix(text, "202") { // a date is anybody's
				require.False(t, strings.Contains(all, text), "%s: %q", path, text)
				looked++
			}
			for i := range max(len(words)-run+1, 0) {
				found := strings.Join(words[i:i+run], " ")
				require.False(t, strings.Contains(all, found), "%s: %q", path, found)
				looked++
			}
		})
	}
	require.Greater(t, looked, 400)
}

// telling values say which state they are from: names, codes and numbers.
var telling = regexp.MustCompile(`^.*([A-Z].* |[0-9]{3}|[A-Z].*[0-9]).*$`)

// eachText calls f with each text in a value of JSON.
func eachText(v any, f func(string)) {
	switch v := v.(type) {
	case string:
		f(v)
	case []any:
		for _, item := range v {
			eachText(item, f)
		}
	case map[string]any:
		for _, item := range v {
			eachText(item, f)
		}
	}
}
