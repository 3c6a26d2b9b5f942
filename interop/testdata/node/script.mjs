// What the two drivers share. Each is one process for many tests: it reads what to do
// from its standard input and prints what happened, both as JSON, a line for each script.
import { createInterface } from 'node:readline';

/** User plays the person and the model behind one client, as the script says. */
export class User {
  constructor(call) {
    this.elicitations = [...(call.elicit ?? [])];
    this.samples = [...(call.sample ?? [])];
    this.call = call;
    this.asked = [];
    this.given = new Map();
    this.aborter = new AbortController();
    this.posting = 0;
    /** How a client reaches its server: as it would, but that messages on their way are counted. */
    this.fetch = async (url, init) => {
      if (init?.method !== 'POST') return fetch(url, init);
      this.posting++;
      try {
        return await fetch(url, init);
      } finally {
        this.posting--;
      }
    };
    /** What a call is made with, besides its parameters. */
    this.options = {
      signal: this.aborter.signal,
      ...(call.timeout && { timeout: call.timeout }),
      ...(call.progress && { resetTimeoutOnProgress: true, onprogress: () => {} }),
    };
  }

  /** The next answer, or that which the question got before, if it is to get that again. */
  next(question, answers) {
    if (this.call.again && this.given.has(question)) return this.given.get(question);
    const answer = answers.shift();
    if (!answer) throw new Error(`nobody said what to answer to: ${question}`);
    this.given.set(question, answer);
    return answer;
  }

  async elicit(params) {
    this.asked.push(`elicitation/create: ${params.message}`);
    await this.pass(params.message);
    if (this.call.parallel) return this.inTurn(params.message);
    const answer = this.next(params.message, this.elicitations);
    const { action, defaults } = answer;
    if (action !== 'accept') return { action };
    const content = {};
    if (defaults) {
      for (const [name, field] of Object.entries(params.requestedSchema.properties)) {
        if (field.default !== undefined) content[name] = field.default;
      }
    }
    return { action, content: { ...content, ...answer.content } };
  }

  /** The answer to one of many questions, when all have come. */
  async inTurn(message) {
    this.given.set(message, true);
    while (this.given.size < this.call.parallel) await new Promise(done => setTimeout(done, 5));
    return { action: 'accept', content: { username: message, email: 'a@example.com' } };
  }

  async sample(params) {
    const last = params.messages.at(-1).content;
    const question = (Array.isArray(last) ? last[0] : last).text.split('\n')[0];
    this.asked.push(`sampling/createMessage: ${question}`);
    await this.pass(question);
    const text = this.next(question, this.samples);
    return { role: 'assistant', model: 'a-model', stopReason: 'endTurn', content: { type: 'text', text } };
  }

  /** Lets something happen to the server while it waits for an answer, or gives the call up. */
  async pass(question) {
    if (this.call.abortIn === this.asked.length) {
      this.aborter.abort();
      await new Promise(() => {});
    }
    if (!this.call.between) return;
    const r = await fetch(this.call.between, { method: 'POST', body: question });
    if (!r.ok) throw new Error(await r.text());
  }
}

/**
 * Calls a tool by the methods of the saga proposal. No SDK has them; each sends any
 * method: send(method, params) does.
 */
export async function playSaga(call, user, send) {
  const completedSteps = [];
  let result = call.token
    ? await send('tools/resumeSaga', { sagaToken: call.token, completedSteps })
    : await send('tools/callSaga', { name: call.tool, arguments: call.arguments });
  for (let rounds = 1; ; rounds++) {
    const { state, sagaToken, steps } = result;
    if (state !== 'suspended') return { rounds, result };
    if (rounds === call.cancelIn) return { rounds, result: await send('tools/cancelSaga', { sagaToken }) };
    for (const { type, stepId, params } of steps) {
      completedSteps.push({ stepId, result: await (type === 'elicitation' ? user.elicit(params) : user.sample(params)) });
    }
    result = await send('tools/resumeSaga', { sagaToken, completedSteps });
  }
}

/**
 * Waits until what a call that has failed, or was given up, has sent last has arrived: to close a client
 * takes back what has not, and servers may have much to do.
 */
export async function settled(user) {
  if (user.done) return;
  const wait = ms => new Promise(done => setTimeout(done, ms));
  await wait(500);
  for (let tries = 0; user.posting > 0 && tries < 1000; tries++) await wait(10);
}

/**
 * Calls a tool, and as a model would that reads of a next part, again for that: the SDK
 * knows nothing of it. The result has all parts.
 */
export async function readOn(call, callTool) {
  if (call.parallel) return inParallel(call, callTool);
  const read = [];
  for (let args = call.arguments; ; ) {
    const result = await callTool({ name: call.tool, arguments: args });
    const token = call.reads && /resumeToken: (\S+)$/.exec(result.content?.at(-1)?.text)?.[1];
    if (!token) return { ...result, content: [...read, ...(result.content ?? [])] };
    read.push(...result.content.slice(0, -1));
    args = { ...call.arguments, resumeToken: token };
  }
}

/**
 * Makes many calls in one session, each with a message of its own, and answers none before all
 * were asked: an answer is the message. The result has the texts of all.
 */
async function inParallel(call, callTool) {
  const results = await Promise.all(
    Array.from({ length: call.parallel }, (_, i) => callTool({ name: call.tool, arguments: { message: `Call ${i}` } })),
  );
  return { content: results.flatMap(result => result.content) };
}

/**
 * Plays scripts, as they come, with a function that makes one call. The calls of a
 * script are made one after the other, each with a client of its own.
 */
export function serve(makeCall) {
  createInterface({ input: process.stdin }).on('line', async line => {
    const script = JSON.parse(line);
    const outcomes = [];
    for (const call of script.calls) {
      const user = new User(call);
      const outcome = { asked: user.asked };
      try {
        Object.assign(outcome, await makeCall(call, user, script));
      } catch (e) {
        outcome.error = `${e.name}: ${e.message}`;
      }
      outcomes.push(outcome);
    }
    console.log(JSON.stringify({ id: script.id, outcomes }));
  });
}
