// Package auth finds out who calls a server, as MCP asks of an OAuth 2.1 resource server: it verifies access tokens, tells
// clients where to get them and which scopes they need, and permits each tool to those who have its scopes.
//
// A [Guard] has [Method]s, which are asked in their order: [NewJWT] and [NewIntrospection] for access tokens,
// [NewAPIKeys] for machines, [NewProxy] for what a trusted proxy says. [Guard.Secure] puts it before a
// [server.Server], [Guard.Handler] adds the metadata of RFC 9728.
package auth
