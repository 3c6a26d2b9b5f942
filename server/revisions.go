package server

// Revisions returns the revisions of MCP that a [Server] speaks, newest first. It
// speaks the saga proposal besides.
func Revisions() []string { return append([]string{statelessVersion}, handshakeVersions...) }
