// Calls tools as tasks with the official TypeScript SDK 1.x, which speaks MCP 2025-11-25 and has
// its experimental tasks.
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { CallToolResultSchema, CreateMessageRequestSchema, ElicitRequestSchema } from '@modelcontextprotocol/sdk/types.js';
import { serve } from './script.mjs';

const related = 'io.modelcontextprotocol/related-task';

serve(async (call, user, script) => {
  const client = new Client({ name: 'interop', version: '1' }, { capabilities: { elicitation: {}, sampling: {} } });
  let task;
  const own = request => {
    const of = request.params._meta?.[related]?.taskId;
    if (task && of !== task) throw new Error(`the question is of ${of}, not of ${task}`);
    return request.params;
  };
  client.setRequestHandler(ElicitRequestSchema, request => user.elicit(own(request)));
  client.setRequestHandler(CreateMessageRequestSchema, request => user.sample(own(request)));
  const { url, command, args } = script.server;
  const transport = url
    ? new StreamableHTTPClientTransport(new URL(url))
    : new StdioClientTransport({ command, args, env: process.env, stderr: 'ignore' });
  await client.connect(transport);
  try {
    await client.listTools(); // the client has to know which tools must be tasks
    const statuses = [];
    const outcome = { protocol: transport.protocolVersion ?? '2025-11-25', statuses };
    const tasks = client.experimental.tasks;
    const stream = tasks.callToolStream({ name: call.tool, arguments: call.arguments }, CallToolResultSchema, { task: script.mode.plain ? undefined : { ttl: 600_000 } });
    for await (const message of stream) {
      switch (message.type) {
        case 'taskCreated':
          outcome.task = task = message.task.taskId;
          if (call.cancelTask) statuses.push((await tasks.cancelTask(task)).status);
          break;
        case 'taskStatus':
          statuses.push(message.task.status);
          break;
        case 'result':
          outcome.result = message.result;
          break;
        case 'error': // this stream asks for no result of a task that has failed
          if (!task) throw message.error;
          outcome.result = await tasks.getTaskResult(task, CallToolResultSchema);
      }
    }
    if (task) {
      statuses.push((await tasks.getTask(task)).status);
      const of = outcome.result._meta?.[related]?.taskId;
      if (of !== task) throw new Error(`the result is of ${of}, not of ${task}`);
      if (client.getServerCapabilities().tasks.list) {
        const { tasks: list } = await tasks.listTasks();
        if (!list.some(one => one.taskId === task)) throw new Error('the list lacks the task');
      }
    }
    return outcome;
  } finally {
    await client.close();
  }
});
