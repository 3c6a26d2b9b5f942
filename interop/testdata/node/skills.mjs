// Reads the skills of a server as hosts do, with the official TypeScript SDK, which verifies them. The argument is JSON: the
// server's url and the version mode. It prints the names and the texts.
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { SkillsClient } from '@modelcontextprotocol/client/ext/skills';

const { url, mode } = JSON.parse(process.argv[2]);
const client = new Client({ name: 'interop', version: '1' }, { versionNegotiation: { mode } });
await client.connect(new StreamableHTTPClientTransport(new URL(url)));
const skills = new SkillsClient(client);
const found = {};
for (const listed of (await skills.list()).skills) {
  const { skill } = await skills.get(listed.uri);
  const { verified, frontmatter, body } = await skills.read(skill);
  if (verified) found[frontmatter.name] = `${frontmatter.description}\n${body}`;
}
console.log(JSON.stringify({ supported: skills.supported, protocol: client.getNegotiatedProtocolVersion(), found }));
await client.close();
