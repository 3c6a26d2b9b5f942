// A host of MCP Apps, as small as it can be: AppBridge of ext-apps, and the client of the TypeScript SDK. Go tests
// bundle it, and drive it by what it puts on window.
import { AppBridge, buildAllowAttribute, getToolUiResourceUri, isToolVisibilityAppOnly, PostMessageTransport, RESOURCE_MIME_TYPE } from '@modelcontextprotocol/ext-apps/app-bridge';
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';

/** What has happened, for the test to read. */
const log = [];
let client, bridge, frame, tools;

/** Connects as a host does that shows apps, and asks nothing itself. apps is false for one that shows none. */
async function connect({ url, mode, name = 'host', apps = true }) {
  client = new Client({ name, version: '1' }, {
    capabilities: apps ? { extensions: { 'io.modelcontextprotocol/ui': { mimeTypes: [RESOURCE_MIME_TYPE] } } } : {},
    versionNegotiation: { mode },
  });
  await client.connect(new StreamableHTTPClientTransport(new URL(url)));
  tools = (await client.listTools()).tools;
  return client.getNegotiatedProtocolVersion();
}

/** The tools that the model sees, and the app. */
const listed = () => ({ model: tools.filter(t => !isToolVisibilityAppOnly(t)).map(t => t.name), app: tools.map(t => t.name) });

/** Mounts an app: its page, in a frame of another site that forwards what is said. */
async function mount({ html, sandbox, capabilities, context, ontool }) {
  frame = Object.assign(document.createElement('iframe'), { src: sandbox, title: 'app', allow: buildAllowAttribute({}) });
  frame.style.cssText = 'width: 600px; height: 700px';
  const ready = new Promise(resolve => addEventListener('message', function hear({ source, data }) {
    if (source !== frame.contentWindow || data !== 'ready') return;
    removeEventListener('message', hear);
    resolve();
  }));
  document.body.append(frame);
  await ready;
  bridge = new AppBridge(null, { name: 'host', version: '1' }, capabilities ?? { serverTools: {}, openLinks: {}, message: {}, updateModelContext: {} }, { hostContext: context ?? { theme: 'light' } });
  const initialized = new Promise(resolve => bridge.addEventListener('initialized', resolve));
  bridge.oncalltool = async params => {
    log.push(`app calls ${params.name}`);
    return ontool(params);
  };
  bridge.onmessage = async ({ content }) => (log.push(`message: ${content[0].text}`), {});
  bridge.onupdatemodelcontext = async ({ content }) => (log.push(`context: ${content[0].text}`), {});
  bridge.onopenlink = async ({ url }) => (log.push(`opens ${url}`), {});
  bridge.addEventListener('sizechange', ({ height }) => (frame.style.height = `${height}px`));
  await bridge.connect(new PostMessageTransport(frame.contentWindow, frame.contentWindow));
  frame.contentWindow.postMessage({ html }, '*');
  await initialized;
  log.push('initialized');
}

/** An app may call the tools that it is to see. */
function callForApp(params) {
  const tool = tools.find(t => t.name === params.name);
  if (!tool || !(tool._meta?.ui?.visibility ?? ['app']).includes('app')) throw new Error('this app may not call that tool');
  return client.callTool(params);
}

/**
 * Calls a tool for the model, and shows its app. mood says how the host does that: late mounts only when there is a
 * result, withheld says nothing of the call before, stripped and bare pass the result without _meta, or with text only.
 */
async function call({ name, args, mood, sandbox, ...rest }) {
  mood ??= {};
  const tool = tools.find(t => t.name === name);
  const uri = getToolUiResourceUri(tool);
  const running = client.callTool({ name, arguments: args }, { timeout: 60_000, onprogress: () => log.push('progress'), resetTimeoutOnProgress: true });
  running.catch(() => {});
  if (uri && mood.late) await running;
  if (uri) {
    const { contents } = await client.readResource({ uri });
    if (contents[0].mimeType !== RESOURCE_MIME_TYPE) throw new Error(`the app is ${contents[0].mimeType}`);
    await mount({ html: contents[0].text, sandbox, ontool: callForApp, context: { theme: 'light', toolInfo: { tool } }, ...rest });
    if (!mood.withheld) await bridge.sendToolInput({ arguments: args });
  }
  const result = await running;
  log.push(`result: ${result.content[0]?.text}`);
  if (uri) {
    if (mood.withheld) await bridge.sendToolInput({ arguments: args });
    const { _meta, structuredContent, ...bare } = result;
    await bridge.sendToolResult(mood.bare ? bare : mood.stripped ? { ...bare, structuredContent } : result);
  }
  return result;
}

Object.assign(window, {
  host: {
    log, connect, listed, mount, call,
    /** Begins without waiting; settled says how it ended. */
    begin(name, params) {
      window.settled = undefined;
      Promise.resolve(params).then(host[name]).then(value => (window.settled = { value }), e => (window.settled = { error: String(e) }));
    },
    again: params => client.callTool(params).then(result => (log.push(`result: ${result.content[0]?.text}`), result)),
    input: args => bridge.sendToolInput({ arguments: args }),
    result: result => bridge.sendToolResult(result),
    cancel: () => bridge.sendToolCancelled({ reason: 'user action' }),
    context: params => bridge.sendHostContextChange(params),
    teardown: () => bridge.teardownResource({}),
  },
});
