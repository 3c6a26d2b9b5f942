package engine

import (
	"log/slog"
	"time"
)

// Notifier gets what a tool tells while a turn is under way. Its methods must
// be safe for concurrent use and must not block for long.
type Notifier interface {
	// Progress gets how far the turn has come.
	Progress(Progress)
	// Log gets a message for the client's log.
	Log(Log)
}

// Progress says how far a turn has come.
type Progress struct {
	// Done grows with each message; Total is 0 if it is unknown.
	Done, Total float64
	// Message is for people, or empty.
	Message string
}

// Log is a message for the client's log.
type Log struct {
	// Level is how severe it is.
	Level slog.Level
	// Logger is the tool's name.
	Logger string
	// Data is the message: anything that encodes to JSON.
	Data any
}

// levels are MCP's names of levels, the most severe first. The names that package
// log/slog lacks are between and above its own, four apart.
var levels = []struct {
	level slog.Level
	name  string
}{
	{slog.LevelError + 12, "emergency"},
	{slog.LevelError + 8, "alert"},
	{slog.LevelError + 4, "critical"},
	{slog.LevelError, "error"},
	{slog.LevelWarn, "warning"},
	{slog.LevelInfo + 2, "notice"},
	{slog.LevelInfo, "info"},
}

// LevelName returns MCP's name of a level, as in syslog (RFC 5424): that of the nearest
// level that is not more severe.
func LevelName(l slog.Level) string {
	for _, known := range levels {
		if l >= known.level {
			return known.name
		}
	}
	return "debug"
}

// ParseLevel returns the level of an MCP name.
func ParseLevel(name string) (level slog.Level, ok bool) {
	for _, known := range levels {
		if known.name == name {
			return known.level, true
		}
	}
	return slog.LevelDebug, name == "debug"
}

// Disconnecter is a [Notifier] whose connection can be given up during a turn:
// the client comes back for the result (SEP-1699).
type Disconnecter interface {
	// Disconnect closes the connection and has the client come back after retry.
	Disconnect(retry time.Duration)
}
