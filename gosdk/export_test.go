package gosdk

import "github.com/modelcontextprotocol/go-sdk/mcp"

// AddTool adds a tool as Mount does.
func AddTool(s *mcp.Server, t *mcp.Tool) error {
	return (&entries{tools: []*mcp.Tool{t}}).add(s, new(Mounted))
}

// ToolResult makes a result of ours one of the SDK's.
var ToolResult = toolResult
