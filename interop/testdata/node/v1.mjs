// Calls tools with the official TypeScript SDK 1.x, which speaks MCP 2025-11-25, or with that
// which is installed under the name in the first argument.
import { playSaga, readOn, serve, settled } from './script.mjs';

const sdk = process.argv[2] ?? '@modelcontextprotocol/sdk';
const { Client } = await import(`${sdk}/client/index.js`);
const { StdioClientTransport } = await import(`${sdk}/client/stdio.js`);
const { StreamableHTTPClientTransport } = await import(`${sdk}/client/streamableHttp.js`);
const { DEFAULT_REQUEST_TIMEOUT_MSEC: limit } = await import(`${sdk}/shared/protocol.js`);
const { CreateMessageRequestSchema, ElicitRequestSchema, ResultSchema } = await import(`${sdk}/types.js`);

serve(async (call, user, script) => {
  const client = new Client({ name: 'interop', version: '1' }, { capabilities: { elicitation: {}, sampling: {} } });
  client.setRequestHandler(ElicitRequestSchema, request => user.elicit(request.params));
  client.setRequestHandler(CreateMessageRequestSchema, request => user.sample(request.params));
  const { url, command, args } = script.server;
  const transport = url
    ? new StreamableHTTPClientTransport(new URL(url), { fetch: user.fetch })
    : new StdioClientTransport({ command, args, env: process.env, stderr: 'ignore' });
  await client.connect(transport);
  try {
    const protocol = transport.protocolVersion ?? '2025-11-25';
    const tools = (await client.listTools()).tools.length;
    user.done = call.saga;
    if (call.saga) {
      return { protocol, tools, ...(await playSaga(call, user, (method, params) => client.request({ method, params }, ResultSchema))) };
    }
    const result = await readOn(call, params => client.callTool(params, undefined, user.options));
    user.done = true;
    return { protocol, tools, limit, result };
  } finally {
    await settled(user);
    await client.close();
  }
});
