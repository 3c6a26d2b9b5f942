// A server on the official TypeScript SDK 1, with one tool that asks the user, the model
// and the roots, by requests of its own as servers before 2026-07-28 do. It is served on
// standard input and output, or, with the argument "http", on a free port, whose address
// it prints.
import { createServer } from "node:http";
import { randomUUID } from "node:crypto";
import { Server } from "@modelcontextprotocol/sdk/server/index.js";
import { StdioServerTransport } from "@modelcontextprotocol/sdk/server/stdio.js";
import { StreamableHTTPServerTransport } from "@modelcontextprotocol/sdk/server/streamableHttp.js";
import { CallToolRequestSchema, ListToolsRequestSchema } from "@modelcontextprotocol/sdk/types.js";

function make() {
  const server = new Server({ name: "older", version: "1.0.0" }, { capabilities: { tools: {} } });
  const inputSchema = { type: "object", properties: { topic: { type: "string" } }, required: ["topic"] };
  server.setRequestHandler(ListToolsRequestSchema, () => ({ tools: [{ name: "ask", description: "asks everything", inputSchema }] }));
  server.setRequestHandler(CallToolRequestSchema, async ({ params }, extra) => {
    const progressToken = params._meta?.progressToken;
    if (progressToken !== undefined) {
      await extra.sendNotification({ method: "notifications/progress", params: { progressToken, progress: 1, total: 2, message: "asking" } });
    }
    const form = await server.elicitInput({
      message: "Which color?",
      requestedSchema: { type: "object", properties: { color: { type: "string", enum: ["red", "blue"] } }, required: ["color"] },
    });
    const model = await server.createMessage({ messages: [{ role: "user", content: { type: "text", text: "Is it nice?" } }], maxTokens: 10 });
    const roots = await server.listRoots();
    return { content: [{ type: "text", text: `${params.arguments.topic}: ${form.action} ${form.content?.color}, ${model.content.text}, ${roots.roots[0].name}` }] };
  });
  return server;
}

if (process.argv[2] === "http") {
  const sessions = new Map();
  const http = createServer(async (request, response) => {
    let transport = sessions.get(request.headers["mcp-session-id"]);
    if (!transport) {
      transport = new StreamableHTTPServerTransport({
        sessionIdGenerator: () => randomUUID(),
        onsessioninitialized: (id) => sessions.set(id, transport),
      });
      await make().connect(transport);
    }
    await transport.handleRequest(request, response);
  });
  http.listen(0, "127.0.0.1", () => console.log(`http://127.0.0.1:${http.address().port}/mcp`));
} else {
  await make().connect(new StdioServerTransport());
}
