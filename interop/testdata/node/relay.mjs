// Calls a tool with an official TypeScript SDK whose client declares nothing, and goes on as a model does that knows no more than
// what results say: it asks its user what they name, and calls again as they say. Prints the last text.
const [version, mode, url, tool, script] = process.argv.slice(2);
const user = JSON.parse(script); // what the user says, by question

async function connect() {
  if (version === '1') {
    const { Client } = await import('@modelcontextprotocol/sdk/client/index.js');
    const { StreamableHTTPClientTransport } = await import('@modelcontextprotocol/sdk/client/streamableHttp.js');
    const client = new Client({ name: 'interop', version: '1' });
    await client.connect(new StreamableHTTPClientTransport(new URL(url)));
    return client;
  }
  const { Client, StreamableHTTPClientTransport } = await import('@modelcontextprotocol/client');
  const client = new Client({ name: 'interop', version: '1' }, { versionNegotiation: { mode: JSON.parse(mode) } });
  await client.connect(new StreamableHTTPClientTransport(new URL(url)));
  return client;
}

const client = await connect();
const listed = (await client.listTools()).tools.find(t => t.name === tool);
let more = {};
let text = '';
for (let calls = 0; calls < 10; calls++) {
  for (const name of Object.keys(more)) {
    if (!(name in listed.inputSchema.properties)) throw new Error(`the tool has no argument ${name}`);
  }
  const result = await client.callTool({ name: tool, arguments: more });
  text = result.content[0].text;
  const token = /resumeToken: ([\w-]+)/.exec(text);
  const asked = [...text.matchAll(/^Question ("(?:[^"\\]|\\.)*"): ("(?:[^"\\]|\\.)*")$/gm)];
  if (!token || asked.length === 0) break;
  more = { resumeToken: token[1], answers: {} };
  for (const [, id, message] of asked) more.answers[JSON.parse(id)] = user[JSON.parse(message)];
}
console.log(JSON.stringify({ text, protocol: client.getNegotiatedProtocolVersion?.() ?? '' }));
await client.close();
