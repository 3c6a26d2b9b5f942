// An authorization server, in which everybody is ann and agrees to everything: oidc-provider, with what MCP asks of one.
// It prints its address. Tokens of resources whose path has "opaque" are opaque, of others RFC 9068's; those that client
// "short" gets, or anyone for a resource whose path has "short", live for a second. Who signs in as deny denies.
import { createServer } from 'node:http';
import { text } from 'node:stream/consumers';
import Provider from 'oidc-provider';

const server = createServer();
await new Promise(listening => server.listen(0, '127.0.0.1', listening));
const issuer = `http://127.0.0.1:${server.address().port}`;
const scopes = 'tools tools:read orders';
const machine = (client_id, more) => ({
  client_id, client_secret: `secret of ${client_id}`, redirect_uris: [], response_types: [],
  grant_types: ['client_credentials'], scope: scopes, ...more,
});

const desk = {
  client_id: 'desk', application_type: 'native', token_endpoint_auth_method: 'none', redirect_uris: ['http://127.0.0.1/callback'],
  response_types: ['code'], grant_types: ['authorization_code', 'refresh_token'],
};

const provider = new Provider(issuer, {
  clients: [machine('machine'), machine('other'), machine('short'), desk, machine('resource-server', { grant_types: [], scope: undefined })],
  cookies: { keys: ['interop'] },
  scopes: ['openid', 'offline_access', ...scopes.split(' ')],
  findAccount: (_, accountId) => ({ accountId, claims: () => ({ sub: accountId }) }),
  interactions: { url: (_, { uid }) => `/interaction/${uid}` },
  ttl: { ClientCredentials: (_, __, client) => (client.clientId === 'short' ? 1 : 600) },
  features: {
    devInteractions: { enabled: false },
    clientCredentials: { enabled: true },
    registration: { enabled: true },
    introspection: { enabled: true, allowedPolicy: () => true },
    revocation: { enabled: true },
    resourceIndicators: {
      enabled: true,
      useGrantedResource: () => true,
      getResourceServerInfo: (_, resource) => ({
        scope: scopes, audience: resource, accessTokenFormat: resource.includes('opaque') ? 'opaque' : 'jwt',
        accessTokenTTL: resource.includes('short') ? 1 : undefined,
      }),
    },
  },
});

/** Signs in whom the client names, and agrees to what it asks for. */
async function interact(req, res) {
  const { prompt, params, session, grantId } = await provider.interactionDetails(req, res);
  if (prompt.name === 'login' && (await provider.Client.find(params.client_id)).clientName === 'pages') { // its users say who they are
    if (req.method === 'GET') return res.setHeader('content-type', 'text/html').end('<form method=post><input name=user autofocus><button>Sign in</button></form>');
    params.login_hint = new URLSearchParams(await text(req)).get('user');
  }
  let result = { login: { accountId: params.login_hint ?? 'ann' } };
  if (params.login_hint === 'deny') result = { error: 'access_denied', error_description: 'ann said no' };
  if (prompt.name === 'consent' && !result.error) {
    const grant = grantId ? await provider.Grant.find(grantId) : new provider.Grant({ accountId: session.accountId, clientId: params.client_id });
    grant.addOIDCScope(params.scope);
    for (const resource of [params.resource ?? []].flat()) grant.addResourceScope(resource, params.scope);
    result = { consent: { grantId: await grant.save() } };
  }
  await provider.interactionFinished(req, res, result, { mergeWithLastSubmission: true });
}

const callback = provider.callback();
server.on('request', (req, res) => {
  if (!req.url.startsWith('/interaction/')) return callback(req, res);
  interact(req, res).catch(error => res.writeHead(500).end(String(error.stack)));
});
console.log(issuer);
process.stdin.resume().on('end', () => process.exit()); // with the test
