package saga

import (
	"context"

	"github.com/mcpsaga/mcpsaga/content"
)

// Kind says what a saga is to MCP.
type Kind uint8

// The kinds of sagas.
const (
	// KindTool is called by models: tools/call.
	KindTool Kind = iota
	// KindPrompt is chosen by users: prompts/get.
	KindPrompt
	// KindResource is read by applications: resources/read.
	KindResource
)

// String returns "tool", "prompt" or "resource".
func (k Kind) String() string {
	switch k {
	case KindPrompt:
		return "prompt"
	case KindResource:
		return "resource"
	}
	return "tool"
}

// Messages is the result of a prompt: MCP's GetPromptResult.
type Messages struct {
	// Description tells what the messages are for.
	Description string `json:"description,omitzero"`
	// Messages are the messages to give to a model.
	Messages []PromptMessage `json:"messages"`
}

// PromptMessage is a message of a prompt.
type PromptMessage struct {
	// Role is who speaks.
	Role content.Role `json:"role"`
	// Content is what is said.
	Content content.Block `json:"content"`
}

// Contents is a part of a resource's result: MCP's ResourceContents. Either Text
// or Blob is set.
type Contents struct {
	// URI is the address of this part.
	URI string
	// MIMEType is its type, or empty.
	MIMEType string
	// Text is the part if it is text.
	Text string
	// Blob is the part if it is not.
	Blob []byte
}

// PromptArgument describes an argument of a prompt. All are strings.
type PromptArgument struct {
	// Name is the argument's name.
	Name string `json:"name"`
	// Title is its name for people, from the tag title, or empty.
	Title string `json:"title,omitzero"`
	// Description says what it is for.
	Description string `json:"description,omitzero"`
	// Required says that it must be given.
	Required bool `json:"required,omitzero"`
}

// PromptInfo is what lists show of a prompt besides its name.
type PromptInfo struct {
	// Arguments are the prompt's arguments, in the order of their fields.
	Arguments []PromptArgument
}

// ResourceInfo is what lists show of a resource besides its name.
type ResourceInfo struct {
	// URI is the resource's address, or the template of those of many (RFC 6570).
	URI string
	// Template reports that URI is a template.
	Template bool
	// MIMEType is the type of the contents, or empty.
	MIMEType string
	match    func(uri string) (map[string]string, bool)
	serves   func(uri string) bool
}

// Match reports whether the resource is at uri, and with what variables of its
// template.
func (r *ResourceInfo) Match(uri string) (variables map[string]string, ok bool) {
	return r.match(uri)
}

// Completer suggests values for an argument that begin with, or otherwise suit,
// what was typed so far. others holds the arguments that are filled in already.
type Completer func(ctx context.Context, typed string, others map[string]string) ([]string, error)
