// Package content holds MCP's content blocks: the pieces that tool results,
// prompts and sampling messages are made of.
//
// A [Block] is one of [Text], [Image], [Audio], [ResourceLink], [EmbeddedResource],
// [ToolUse], [ToolResult] and [Unknown]. [Blocks] is a list of them:
//
//	result := content.Blocks{
//		content.Textf("Deployed to %s.", target),
//		content.ResourceLink{URI: "file:///var/log/deploy.log", Name: "log"},
//	}
//
// # JSON
//
// Every type here marshals to compact JSON with the member "type" first, and
// unmarshals from it, by encoding/json and what works like it. Note that
// [encoding/json.Marshal] escapes <, > and & in whatever a Marshaler returns: use an
// encoder with SetEscapeHTML(false) if these must stay as they are.
//
// Unmarshalling is strict about JSON (no duplicate names, valid UTF-8) and about
// the members MCP requires, and ignores members it does not know. A block
// of a type it does not know becomes an [Unknown], which marshals to what it was
// read from, so a newer peer's content passes through unharmed.
//
// The shapes are those of the MCP specification 2026-07-28, pages
// "server/tools", "server/resources" and "client/sampling"; older revisions use
// a subset.
package content
