//go:build !race

package turns

const raceEnabled = false
