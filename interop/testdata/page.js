// What a web page does that uses an MCP server at another origin, with nothing but
// fetch. Each function returns what the page got to see.

const call = (url, message, headers = {}, more = {}) =>
  fetch(url, {
    method: "POST",
    headers: { "Content-Type": "application/json", Accept: "application/json, text/event-stream", ...headers },
    body: JSON.stringify({ jsonrpc: "2.0", ...message }),
    ...more,
  });

const form = { action: "accept", content: { target: "production" } };
const said = { role: "assistant", content: { type: "text", text: "Yes." }, model: "m", stopReason: "endTurn" };

// saga drives a tool by the saga proposal.
async function saga(url) {
  const steps = [];
  const reply = async (id, method, params) => (await (await call(url, { id, method, params }, { Authorization: "Bearer x" })).json()).result;
  let turn = await reply(1, "tools/callSaga", { name: "complex_tool", arguments: { initial_arg: "value" } });
  for (const result of [form, said]) {
    steps.push({ stepId: turn.steps[0].stepId, result });
    turn = await reply(2, "tools/resumeSaga", { sagaToken: turn.sagaToken, completedSteps: steps });
  }
  return turn.content[0].text;
}

// modern lists the tools by MCP 2026-07-28.
async function modern(url) {
  const params = { _meta: { "io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {} } };
  const headers = { "MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/list" };
  for await (const { result } of messages(await call(url, { id: 1, method: "tools/list", params }, headers))) {
    return result.tools.map((t) => t.name).includes("complex_tool") ? "listed" : "missing";
  }
}

// messages yields the messages of a response, which may be a stream.
async function* messages(response) {
  if (!response.headers.get("Content-Type").startsWith("text/event-stream")) {
    yield await response.json();
    return;
  }
  let text = "";
  for await (const chunk of response.body.pipeThrough(new TextDecoderStream())) {
    const events = (text + chunk).split("\n\n");
    text = events.pop();
    for (const event of events) {
      const data = event.split("\n").filter((l) => l.startsWith("data:")).map((l) => l.slice(5)).join("");
      if (data.trim()) yield JSON.parse(data);
    }
  }
}

// session drives a tool in a session of MCP 2025-11-25, to its end.
async function session(url) {
  const params = { protocolVersion: "2025-11-25", capabilities: { elicitation: {}, sampling: {} }, clientInfo: { name: "page", version: "1" } };
  const opened = await call(url, { id: 0, method: "initialize", params });
  const id = opened.headers.get("Mcp-Session-Id");
  for await (const _ of messages(opened));
  if (!id) return "the page cannot read the session's id";
  const headers = { "Mcp-Session-Id": id, "MCP-Protocol-Version": "2025-11-25" };
  await call(url, { method: "notifications/initialized" }, headers);
  let text = "nothing";
  for await (const m of messages(await call(url, { id: 1, method: "tools/call", params: { name: "complex_tool", arguments: { initial_arg: "value" } } }, headers))) {
    if (m.method === "elicitation/create") await call(url, { id: m.id, result: form }, headers);
    if (m.method === "sampling/createMessage") await call(url, { id: m.id, result: said }, headers);
    if (m.result) text = m.result.content[0].text;
  }
  const ended = await fetch(url, { method: "DELETE", headers });
  const gone = await call(url, { id: 2, method: "ping" }, headers);
  return `${text} ${ended.status} ${gone.status}`;
}

// refusal reads what an answer says that is not a result.
async function refusal(url) {
  const response = await call(url, { id: 7, method: "ping" }, { "Mcp-Session-Id": "nope", "MCP-Protocol-Version": "2025-11-25" });
  return `${response.status} ${await response.text()}`;
}

// foreign tries what a page can try whose origin is not allowed.
async function foreign(url) {
  const message = { id: 1, method: "tools/callSaga", params: { name: "count" } };
  const seen = [];
  for (const [headers, more] of [
    [{}, {}],
    [{}, { credentials: "include" }],
    [{ "Content-Type": "text/plain" }, {}], // browsers send this without asking
    [{ "Content-Type": "text/plain" }, { mode: "no-cors" }],
    [{}, { mode: "no-cors" }],
  ]) {
    try {
      const response = await call(url, message, headers, more);
      seen.push(`${response.type} ${response.status} ${await response.text()}`.trim());
    } catch {
      seen.push("nothing");
    }
  }
  try {
    seen.push((await fetch(url)).status);
  } catch {
    seen.push("nothing");
  }
  return seen.join(", ");
}

// cookies tries to send what the browser keeps for the server.
async function cookies(url) {
  try {
    return (await call(url, { id: 1, method: "ping" }, {}, { credentials: "include" })).status;
  } catch {
    return "nothing";
  }
}
