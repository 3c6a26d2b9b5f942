// Calls tools with the official TypeScript SDK 2.x, which speaks every revision:
// that of 2026-07-28 if it is told to, else that of 2025-11-25.
import { Client, DEFAULT_REQUEST_TIMEOUT_MSEC as limit, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';
import { playSaga, readOn, serve, settled } from './script.mjs';

serve((call, user, script) => (call.manual ? manually : automatically)(call, user, script));

async function connect(user, script, options) {
  const client = new Client(
    { name: 'interop', version: '1' },
    { capabilities: { elicitation: {}, sampling: {} }, versionNegotiation: { mode: script.mode }, ...options },
  );
  client.setRequestHandler('elicitation/create', request => user.elicit(request.params));
  client.setRequestHandler('sampling/createMessage', request => user.sample(request.params));
  const { url, command, args } = script.server;
  await client.connect(
    url ? new StreamableHTTPClientTransport(new URL(url), { fetch: user.fetch }) : new StdioClientTransport({ command, args, env: process.env, stderr: 'ignore' }),
  );
  return client;
}

/** Leaves the rounds to the SDK, as most of its users do. */
async function automatically(call, user, script) {
  const client = await connect(user, script);
  try {
    const protocol = client.getNegotiatedProtocolVersion();
    const tools = (await client.listTools()).tools.length;
    user.done = call.saga;
    if (call.saga) return { protocol, tools, ...(await playSaga(call, user, sender(client))) };
    const result = await readOn(call, params => client.callTool(params, user.options));
    user.done = true;
    return { protocol, tools, limit, result };
  } finally {
    await settled(user);
    await client.close();
  }
}

/** Sends methods that the SDK does not know, and takes any result. */
function sender(client) {
  const anything = { '~standard': { version: 1, vendor: 'interop', validate: value => ({ value }) } };
  return (method, params) => client.request({ method, params }, anything);
}

/** Takes each round with a new client, and so with a new process on stdio. */
async function manually(call, user, script) {
  let params = { name: call.tool, arguments: call.arguments };
  for (let rounds = 1; ; rounds++) {
    const client = await connect(user, script, { inputRequired: { autoFulfill: false } });
    try {
      const result = await client.callTool(params, { allowInputRequired: true });
      const protocol = client.getNegotiatedProtocolVersion();
      if (result.resultType !== 'input_required') return { protocol, rounds, result };
      if (rounds === call.cancelIn) {
        return { protocol, rounds, result: await sender(client)('tools/cancelSaga', { sagaToken: result.requestState }) };
      }
      const inputResponses = {};
      for (const [key, { method, params }] of Object.entries(result.inputRequests)) {
        inputResponses[key] = await (method === 'elicitation/create' ? user.elicit(params) : user.sample(params));
      }
      params = { name: call.tool, arguments: call.arguments, inputResponses, requestState: result.requestState };
    } finally {
      await client.close();
    }
  }
}
