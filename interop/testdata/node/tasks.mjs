// Calls tools with the official package for tasks, on the TypeScript SDK 2.x. It drives
// tasks of MCP 2026-07-28 by itself, and checks every message of theirs against its schemas.
// The SDK's client knows no results of that kind, so they are sent past it here.
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';
import { createTaskSessionFromClient, resultFromTaskOutcome } from '@modelcontextprotocol/ext-tasks/client';
import { serve } from './script.mjs';

const clientInfo = { name: 'interop', version: '1' };
const clientCapabilities = { elicitation: {}, sampling: {} };

/** Sends requests on a connected client's transport, and keeps their answers from it. */
function rawDispatch(transport) {
  const waiting = new Map();
  const pass = transport.onmessage;
  transport.onmessage = (message, extra) => {
    const settle = waiting.get(message.id);
    if (!settle) return pass?.(message, extra);
    waiting.delete(message.id);
    settle(message.error ? { kind: 'error', error: message.error } : { kind: 'result', result: message.result });
  };
  let sent = 0;
  return (request, { context } = {}) =>
    new Promise((resolve, reject) => {
      const id = `task-${++sent}`;
      waiting.set(id, resolve);
      transport.send({ jsonrpc: '2.0', id, ...request }, { headers: context?.headers }).catch(reject);
    });
}

serve(async (call, user, script) => {
  const client = new Client(clientInfo, { capabilities: clientCapabilities, versionNegotiation: { mode: script.mode } });
  const { url, command, args } = script.server;
  const transport = url ? new StreamableHTTPClientTransport(new URL(url)) : new StdioClientTransport({ command, args, env: process.env, stderr: 'ignore' });
  await client.connect(transport);
  const session = createTaskSessionFromClient(client, {
    endpointId: 'interop',
    rawDispatch: rawDispatch(transport),
    v2RequestFraming: { protocolVersion: client.getNegotiatedProtocolVersion(), clientInfo, clientCapabilities },
    onInputRequest: ({ kind, params }) => (kind === 'elicitation' ? user.elicit(params) : user.sample(params)),
  });
  try {
    const execution = await session.callTool(call.tool, call.arguments);
    const statuses = [];
    if (call.cancelTask) await execution.cancel();
    const { outcome } = await execution.settle({ onEvent: ({ type, task }) => { if (type === 'task') statuses.push(task.status); } });
    return { protocol: client.getNegotiatedProtocolVersion(), task: execution.handle?.taskId, statuses, status: outcome.status, result: resultFromTaskOutcome(outcome) };
  } finally {
    await session.close();
    await client.close();
  }
});
