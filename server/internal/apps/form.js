// The form in a host's window (MCP Apps, 2026-01-26). It finds the call that waits with a tool that only apps
// see, gives what the user enters, and shows what is asked next. Everything that came from outside is set as
// text, never as HTML.
'use strict';
(() => {
  const tool = 'mcpsaga_form';
  const frame = Array.from(crypto.getRandomValues(new Uint8Array(8)), b => b.toString(16).padStart(2, '0')).join('');
  const at = id => document.getElementById(id);

  // What the host has said, and what is known of the call.
  let can = {};
  let closed = false;
  const call = { frame }; // what the call is looked for by
  let told = false; // the model was told that there is an answer
  let returned = false; // the model's call has a result
  let free = false; // that result was not the tool's, so the model has to call again
  let timer, tries = 0, working = 0;

  // ---- JSON-RPC with the host

  let last = 0;
  const waiting = new Map();
  const post = message => window.parent.postMessage({ jsonrpc: '2.0', ...message }, '*');
  const notify = (method, params) => post({ method, params });
  const request = (method, params) =>
    new Promise((resolve, reject) => {
      waiting.set(++last, { resolve, reject });
      post({ id: last, method, params });
    });

  window.addEventListener('message', ({ source, data }) => {
    if (source !== window.parent || !data || data.jsonrpc !== '2.0') return;
    if (data.method === undefined) {
      const asked = waiting.get(data.id);
      waiting.delete(data.id);
      if (asked) data.error ? asked.reject(new Error(data.error.message)) : asked.resolve(data.result ?? {});
    } else if (data.id === undefined) {
      heard[data.method.replace('ui/notifications/', '')]?.(data.params ?? {});
    } else if (data.method === 'ping' || data.method === 'ui/resource-teardown') {
      if (data.method !== 'ping') close();
      post({ id: data.id, result: {} });
    } else {
      post({ id: data.id, error: { code: -32601, message: 'This app does not have that method.' } });
    }
  });

  const heard = {
    'host-context-changed': context,
    'tool-input'({ arguments: args }) {
      call.arguments = args ?? {};
      if (!call.resumeToken) look();
    },
    'tool-result'(result) {
      returned = true;
      const token = handleIn(result);
      if (token) [call.resumeToken, free] = [token, true];
      look();
    },
    'tool-cancelled'() {
      say('The call was cancelled.');
      if (call.resumeToken) look();
    },
  };

  // handleIn finds the handle of a call, wherever in a result the host has left it.
  function handleIn(value) {
    if (typeof value === 'string') return /resumeToken\W{1,5}([\w-]{22})(?![\w-])/.exec(value)?.[1];
    if (!value || typeof value !== 'object') return undefined;
    for (const [name, inner] of Object.entries(value)) {
      if (/(^|\/)(next)?resumeToken$/i.test(name) && /^[\w-]{22}$/.test(inner)) return inner;
      const found = handleIn(inner);
      if (found) return found;
    }
    return undefined;
  }

  function context({ theme, styles, toolInfo }) {
    if (theme === 'light' || theme === 'dark') document.documentElement.dataset.theme = theme;
    for (const [name, value] of Object.entries(styles?.variables ?? {})) {
      if (name.startsWith('--') && typeof value === 'string') document.documentElement.style.setProperty(name, value);
    }
    if (toolInfo?.tool?.name) call.tool = toolInfo.tool.name;
  }

  function close() {
    closed = true;
    clearTimeout(timer);
  }

  // ---- the call that waits

  const pauses = [500, 1000, 2000, 4000, 8000, 15000];

  let looks = 0, shown = 0;

  // look asks the server how the call is, with an answer if there is one, and shows it. Replies may overtake each other:
  // what was asked before what is shown, or before the call was known, says nothing any more.
  async function look(answer) {
    clearTimeout(timer);
    if (closed) return;
    const [nth, blind] = [++looks, !call.resumeToken];
    const late = () => !answer && (nth < shown || (blind && call.resumeToken));
    try {
      const result = await request('tools/call', { name: tool, arguments: { ...call, ...answer } });
      if (late()) return;
      shown = nth;
      const text = result.content?.find(block => block.type === 'text')?.text;
      if (result.isError) throw new Error(text);
      show(result.structuredContent ?? JSON.parse(text));
    } catch (error) {
      if (late()) return;
      say(`That did not work. ${error.message ?? ''}`);
      offer('Try again', () => look(answer));
    }
  }

  function again(after) {
    clearTimeout(timer);
    if (!closed) timer = setTimeout(look, after);
  }

  function show(now) {
    if (closed) return;
    if (now.title) document.title = at('title').textContent = now.title;
    if (now.resumeToken) call.resumeToken = now.resumeToken;
    at('end').replaceChildren();
    const asked = now.questions ?? [];
    showQuestions(asked, now.refused ?? {});
    if (now.status === 'input_required' || now.status === 'working') free = !now.held;
    switch (now.status) {
      case 'none':
        if (call.resumeToken || returned || tries >= pauses.length) return say('There is nothing to answer.');
        say('Waiting for a question…');
        return again(pauses[tries++]);
      case 'input_required':
        say(now.note ?? (asked.length > 1 ? 'Please answer these questions.' : 'Please answer.'));
        if (asked.some(q => q.mode === 'page' || q.mode === 'chat')) again(3000);
        return;
      case 'working':
        say('Thank you. The tool is working…');
        again(1000);
        if (free && working++ > 4) tell(now);
        return;
      default:
        say(now.note ?? 'Done.');
        if (!returned && now.held) again(3000); // if its server has died, the call has no result
        else if (!returned) free = true;
        if (free || !returned) tell(now);
    }
  }

  // tell brings the model back, which has to call again for the result, and shows what to say to it where that
  // comes to nothing. The sentence is the server's, and has nothing in it that anybody has entered.
  async function tell({ sentence, resumeToken, tool }) {
    if (!sentence) return;
    const copy = element('button', { type: 'button', textContent: 'Copy', onclick: () => copyText(sentence, copy) });
    at('end').replaceChildren(
      element('div', { className: 'end' }, element('p', { className: 'hint', textContent: 'If the assistant does not go on, send it this:' }),
        element('p', {}, element('code', { id: 'sentence', textContent: sentence })), copy));
    if (told || !free) return;
    told = true;
    const content = [{ type: 'text', text: sentence }];
    try {
      if (can.updateModelContext) await request('ui/update-model-context', { content, structuredContent: { message: sentence, tool, resumeToken } });
    } catch { /* there is the message */ }
    try {
      if (can.message) await request('ui/message', { role: 'user', content });
    } catch { /* there is the sentence */ }
  }

  async function copyText(text, button) {
    try {
      await navigator.clipboard.writeText(text);
    } catch {
      getSelection().selectAllChildren(at('sentence'));
      document.execCommand('copy');
    }
    button.textContent = 'Copied';
  }

  // ---- what is seen

  const say = text => {
    if (at('status').textContent !== text) at('status').textContent = text;
  };

  function element(name, properties, ...children) {
    const made = Object.assign(document.createElement(name), properties);
    for (const [key, value] of Object.entries(properties.aria ?? {})) made.setAttribute(key === 'role' ? key : `aria-${key}`, value);
    made.append(...children.filter(child => child));
    return made;
  }

  function offer(label, act) {
    at('end').replaceChildren(element('div', { className: 'end' }, element('button', {
      type: 'button', textContent: label, onclick: () => {
        at('end').replaceChildren();
        say('');
        act();
      },
    })));
  }

  const forms = new Map(); // by the ids of questions
  let answered; // the form that was sent last: its entries are kept if the same is asked again

  // question tells questions apart, but for how often they were asked.
  const question = q => JSON.stringify([q.id.replace(/~\d+$/, ''), q.schema]);

  function showQuestions(asked, refused) {
    for (const [id, form] of forms) {
      if (asked.some(q => q.id === id)) continue;
      form.node.remove();
      forms.delete(id);
    }
    for (const q of asked) {
      let form = forms.get(q.id);
      if (!form) {
        form = newForm(q);
        forms.set(q.id, form);
        at('questions').append(form.node);
        if (answered?.question === question(q)) form.restore(answered.content);
        if (answered) form.node.querySelector('input, select, textarea, button')?.focus();
      }
      form.free();
      form.refuse(refused[q.id] ?? '');
    }
    if (asked.length > 0) answered = undefined;
  }

  // newForm is the form of a question: fields, a link to open, or a link to the page where it must be answered.
  function newForm(q) {
    const prefix = `q${++last}-`;
    const fields = q.mode === 'form' ? Object.entries(q.schema?.properties ?? {}).map(([name, schema]) => newField(prefix, name, schema, q.schema.required?.includes(name))) : [];
    const problem = element('p', { className: 'wrong', id: `${prefix}wrong`, aria: { role: 'alert' } });
    const heading = element('h2', { id: `${prefix}message`, textContent: q.message });
    const buttons = [];
    const button = (label, act, className = '') => buttons.push(element('button', { type: act ? 'button' : 'submit', textContent: label, className, onclick: act }));
    const give = (action, content) => {
      answered = { question: question(q), content };
      buttons.forEach(b => (b.disabled = true));
      problem.textContent = '';
      say('Sending…');
      look({ answers: { [q.id]: content === undefined ? { action } : { action, content } } });
    };
    const open = () => request('ui/open-link', { url: q.url }).then(
      ({ isError }) => !isError || Promise.reject(new Error()), () => Promise.reject(new Error()),
    ).catch(() => {
      problem.textContent = 'This window cannot open links. Please copy the address into a browser.';
      return Promise.reject(new Error());
    });
    switch (q.mode) {
      case 'form':
        button('Send', undefined, 'first');
        button('Decline', () => give('decline'));
        break;
      case 'url':
        button('Open the page', () => open().then(() => give('accept'), () => {}), 'first');
        button('I have opened it', () => give('accept'));
        button('Decline', () => give('decline'));
        break;
      default: // it is not answered here
        problem.textContent = q.url ? 'Please answer this on its page.' : 'Please answer this in the chat.';
        if (q.url) button('Open the page', () => open().catch(() => {}), 'first');
    }
    const node = element('form', { noValidate: true, aria: { labelledby: heading.id } }, heading, ...fields.map(f => f.node),
      q.mode !== 'form' && q.url && element('p', { className: 'hint' }, element('code', { textContent: q.url })),
      problem, element('div', { className: 'buttons' }, ...buttons));
    node.onsubmit = event => {
      event.preventDefault();
      const wrong = fields.filter(f => !f.check());
      if (wrong.length > 0) return wrong[0].focus();
      give('accept', Object.fromEntries(fields.map(f => [f.name, f.value()]).filter(([, value]) => value !== undefined)));
    };
    return {
      node,
      free: () => buttons.forEach(b => (b.disabled = false)),
      refuse: text => text && (problem.textContent = text),
      restore: content => fields.forEach(f => content && f.name in content && f.set(content[f.name])),
    };
  }

  // choices are the values that a schema allows, with their titles.
  function choices(schema) {
    const titled = schema?.oneOf ?? schema?.anyOf;
    if (titled) return titled.map(c => [c.const, c.title ?? c.const]);
    return schema?.enum?.map((value, i) => [value, schema.enumNames?.[i] ?? value]);
  }

  const types = { email: 'email', uri: 'url', date: 'date', 'date-time': 'datetime-local' };

  // newField is one field of a form: how it looks, and what is in it.
  function newField(prefix, name, schema, required) {
    const id = prefix + name;
    const title = schema.title ?? name;
    const hint = schema.description && element('p', { className: 'hint', id: `${id}-hint`, textContent: schema.description });
    const wrong = element('p', { className: 'wrong', id: `${id}-wrong` });
    const about = { describedby: [hint && hint.id, wrong.id].filter(Boolean).join(' ') };
    const needed = required && schema.type !== 'boolean' && element('span', { className: 'needed', textContent: ' (required)' });
    const field = schema.type === 'array' ? listField() : schema.type === 'boolean' ? boxField() : lineField();
    const first = field.first;
    if (schema.default !== undefined) field.set(schema.default);
    return {
      ...field,
      name,
      focus: () => first.focus(),
      check() {
        const problem = field.problem();
        wrong.textContent = problem;
        problem ? first.setAttribute('aria-invalid', 'true') : first.removeAttribute('aria-invalid');
        return !problem;
      },
    };

    function boxField() {
      const box = element('input', { type: 'checkbox', id, aria: about });
      const node = element('div', { className: 'field' }, element('label', { className: 'box' }, box, element('span', { textContent: title })), hint, wrong);
      return { node, first: box, value: () => box.checked, set: v => (box.checked = v === true), problem: () => '' };
    }

    function listField() {
      const boxes = (choices(schema.items) ?? []).map(([value, label]) => {
        const box = element('input', { type: 'checkbox', value, aria: about });
        return [box, element('label', { className: 'box' }, box, element('span', { textContent: label }))];
      });
      const chosen = () => boxes.filter(([box]) => box.checked).map(([box]) => box.value);
      const { minItems = required ? 1 : 0, maxItems = Infinity } = schema;
      return {
        node: element('fieldset', { className: 'field' }, element('legend', { textContent: title }, needed), hint, ...boxes.map(([, label]) => label), wrong),
        first: boxes[0][0],
        value: () => (chosen().length || required ? chosen() : undefined),
        set: list => boxes.forEach(([box]) => (box.checked = list.includes(box.value))),
        problem() {
          const n = chosen().length;
          if (n === 0 && !required) return '';
          return n < minItems ? `Please choose at least ${minItems}.` : n > maxItems ? `Please choose at most ${maxItems}.` : '';
        },
      };
    }

    function lineField() {
      const options = choices(schema);
      const numeric = schema.type === 'number' || schema.type === 'integer';
      const long = !options && !numeric && !schema.format && schema.maxLength > 200;
      const input = element(options ? 'select' : long ? 'textarea' : 'input', { id, required: Boolean(required), aria: about });
      if (options) input.append(new Option(required ? 'Please choose' : '–', ''), ...options.map(([value, label]) => new Option(label, value)));
      else if (!long) input.type = numeric ? 'number' : types[schema.format] ?? 'text';
      if (numeric) Object.assign(input, { step: schema.type === 'integer' ? 1 : 'any', min: schema.minimum ?? '', max: schema.maximum ?? '' });
      if (schema.minLength) input.minLength = schema.minLength;
      if (schema.maxLength !== undefined && !options && !numeric) input.maxLength = schema.maxLength;
      const moment = schema.format === 'date-time';
      if (moment) input.step = 1; // or only whole minutes may be sent
      return {
        node: element('div', { className: 'field' }, element('label', { htmlFor: id, textContent: title }, needed), hint, input, wrong),
        first: input,
        value() {
          if (input.value === '') return required && !numeric ? '' : undefined;
          return numeric ? Number(input.value) : moment ? new Date(input.value).toISOString() : input.value;
        },
        set(v) {
          const local = moment && new Date(new Date(v) - new Date(v).getTimezoneOffset() * 60000);
          input.value = local ? (isNaN(local) ? '' : local.toISOString().slice(0, 19)) : v;
        },
        problem() {
          if (required && input.value === '' && !input.validity.badInput) return 'Please fill this in.';
          // Numbers here are rounded beyond 2^53, and another may come out than was entered.
          if (schema.type === 'integer' && Math.abs(Number(input.value)) > Number.MAX_SAFE_INTEGER) return 'This number is too large to be sent exactly from here.';
          return input.validationMessage;
        },
      };
    }
  }

  // ---- begin

  async function begin() {
    const host = await request('ui/initialize', {
      protocolVersion: '2026-01-26', appInfo: { name: 'mcpsaga', version: '1' }, appCapabilities: {},
    });
    can = host.hostCapabilities ?? {};
    context(host.hostContext ?? {});
    notify('ui/notifications/initialized');
    let height = 0;
    new ResizeObserver(() => {
      const { offsetWidth: width, offsetHeight } = document.querySelector('main');
      if (height === offsetHeight) return;
      height = offsetHeight;
      notify('ui/notifications/size-changed', { width, height });
    }).observe(document.querySelector('main'));
    if (!can.serverTools) say('This window cannot reach the server. Please answer in the chat.');
    look(); // some hosts say nothing of the call before it has ended
  }
  begin().catch(error => say(`The host has refused this form. ${error.message}`));
})();
