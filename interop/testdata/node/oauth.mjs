// Signs in and calls two tools with the official TypeScript SDK's own OAuth client. The argument is JSON: the server's url,
// the version mode, the tools, and whether its tokens are bound to a key. It prints the results, and the scopes of the tokens that it got.
import { Client, DpopSession, StreamableHTTPClientTransport, UnauthorizedError } from '@modelcontextprotocol/client';

const { url, mode, tools, bound } = JSON.parse(process.argv[2]);
const redirect = 'http://127.0.0.1:1/callback';

/** Does what a browser would, and returns what the client is sent back with. */
async function signIn(at) {
  const cookies = new Map();
  for (let hops = 0; hops < 20; hops++) {
    const headers = { cookie: [...cookies].map(([name, value]) => `${name}=${value}`).join('; ') };
    const response = await fetch(at, { redirect: 'manual', headers });
    for (const cookie of response.headers.getSetCookie()) {
      const [, name, value] = /^([^=]+)=([^;]*)/.exec(cookie);
      cookies.set(name, value);
    }
    if (!response.headers.has('location')) throw new Error(`${at}: ${response.status} ${await response.text()}`);
    at = new URL(response.headers.get('location'), at);
    if (at.href.startsWith(redirect)) return at.searchParams;
  }
  throw new Error('too many redirects');
}

const kept = {};
let signedIn;
const scopes = [];
const kinds = [];
const key = bound && await DpopSession.create();
const authProvider = {
  redirectUrl: redirect,
  clientMetadata: { client_name: 'interop', redirect_uris: [redirect], grant_types: ['authorization_code'], response_types: ['code'], token_endpoint_auth_method: 'none', application_type: 'native' },
  clientInformation: () => kept.client,
  saveClientInformation: client => { kept.client = client; },
  tokens: () => kept.tokens,
  saveTokens: tokens => { kept.tokens = tokens; scopes.push(tokens.scope); kinds.push(tokens.token_type); },
  saveCodeVerifier: verifier => { kept.verifier = verifier; },
  codeVerifier: () => kept.verifier,
  ...(bound && { dpop: () => key }),
  redirectToAuthorization: async at => { signedIn = await signIn(at); },
};

let transport, client;
async function connect() {
  client = new Client({ name: 'interop', version: '1' }, { capabilities: { elicitation: {} }, versionNegotiation: { mode } });
  client.setRequestHandler('elicitation/create', () => ({ action: 'accept', content: { sure: true } }));
  transport = new StreamableHTTPClientTransport(new URL(url), { authProvider });
  await client.connect(transport);
}

/** Signs in where it has to, and tries again. */
async function authorized(work) {
  for (let tries = 0; ; tries++) {
    try {
      return await work();
    } catch (error) {
      const unauthorized = [error, error.cause, error.data?.cause].some(e => e instanceof UnauthorizedError);
      if (!unauthorized || tries === 3) throw error;
      await transport.finishAuth(signedIn);
    }
  }
}

const results = [];
await authorized(connect);
for (const name of tools) {
  try {
    results.push((await authorized(() => client.callTool({ name }))).content[0].text);
  } catch (error) {
    results.push(String(error));
  }
}
console.log(JSON.stringify({ protocol: client.getNegotiatedProtocolVersion(), results, scopes, kinds }));
await client.close();
