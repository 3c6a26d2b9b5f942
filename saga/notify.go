package saga

import "time"

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
	Level LogLevel
	// Logger is the tool's name.
	Logger string
	// Data is the message: anything that encodes to JSON.
	Data any
}

// LogLevel is the severity of a log message, as in syslog (RFC 5424).
type LogLevel uint8

// The levels, the least severe first.
const (
	LogDebug LogLevel = iota
	LogInfo
	LogNotice
	LogWarning
	LogError
	LogCritical
	LogAlert
	LogEmergency
)

var levelNames = []string{"debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"}

// String returns MCP's name of the level.
func (l LogLevel) String() string {
	if int(l) < len(levelNames) {
		return levelNames[l]
	}
	return "emergency"
}

// ParseLogLevel returns the level of an MCP name.
func ParseLogLevel(name string) (level LogLevel, ok bool) {
	for i, n := range levelNames {
		if n == name {
			return LogLevel(i), true
		}
	}
	return 0, false
}

// Disconnecter is a [Notifier] whose connection can be given up during a turn:
// the client comes back for the result (SEP-1699).
type Disconnecter interface {
	// Disconnect closes the connection and has the client come back after retry.
	Disconnect(retry time.Duration)
}
