package server

// SagaMarker is the key in a tool's _meta, and in the server's experimental
// capabilities, that says: this is a saga, call it with tools/callSaga.
const SagaMarker = "io.github.mcpsaga/saga"

// implementation is MCP's Implementation, as far as this server has it.
type implementation struct {
	Name    string `json:"name"`
	Title   string `json:"title,omitzero"`
	Version string `json:"version"`
}
