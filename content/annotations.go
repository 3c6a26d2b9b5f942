package content

// Role says who speaks or who is meant: [User] or [Assistant].
type Role string

// The roles MCP knows.
const (
	// User is the person in front of the client.
	User Role = "user"
	// Assistant is the client's model.
	Assistant Role = "assistant"
)

// Annotations are hints about a block that a client may use to show, order or
// drop it. They are never to be relied on for security (MCP page "server/resources").
type Annotations struct {
	// Audience says who the block is meant for. Empty means not said.
	Audience []Role `json:"audience,omitempty"`
	// Priority says how much the block matters, from 0 (optional) to 1
	// (required). Nil means not said.
	Priority *float64 `json:"priority,omitzero"`
	// LastModified is when the content last changed, in ISO 8601, such as
	// "2026-07-28T15:00:58Z". Empty means not said.
	LastModified string `json:"lastModified,omitzero"`
}

// Icon is a picture that stands for a thing in a user interface.
type Icon struct {
	// Src is the picture's URI: https, or data with base64. MCP requires it.
	Src string `json:"src"`
	// MIMEType overrides the type the source claims, if not empty.
	MIMEType string `json:"mimeType,omitzero"`
	// Sizes are the sizes the picture suits, such as "48x48" or "any".
	Sizes []string `json:"sizes,omitempty"`
	// Theme is the background the picture is made for, "light" or "dark", or empty.
	Theme string `json:"theme,omitzero"`
}
