// The server as npm's `@modelcontextprotocol/sdk` sees it: client.mjs BINARY MODELS FIXTURES
//
// Prints a line a check and at the end `N passed, M failed`.

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

import { Place, ask, check, errorOf, fixtures, ids, longNote, refused, settle, summary, titles } from './harness.mjs';

const [binary, models, fixturesPath] = process.argv.slice(2);
const FIXTURES = fixtures(fixturesPath);
const ANSWER_MAX_BYTES = 60_000;
const TOOLS = [
  'add_note', 'delete_note', 'empty_trash', 'get_note', 'index_status', 'job_status', 'list_notes', 'reindex_notes',
  'related_notes', 'restore_note', 'search_notes', 'semantic_search_notes', 'update_note',
];

async function startUp(client) {
  await check('a note is found by words while the model may still load', async () => {
    const added = await ask(client, 'add_note', { title: 'First thing', content: 'written before the model' });
    assert.deepEqual(ids(await ask(client, 'search_notes', { query: 'before the model' })), [added.id]);
    assert.ok(['loading', 'ready'].includes((await ask(client, 'index_status')).model.state));
    await ask(client, 'delete_note', { id: added.id });
  });
  // From here on the client checks every answer, errors too, against the output schemas.
  await check('all tools are listed', async () => {
    const { tools } = await client.listTools();
    assert.deepEqual(tools.map((tool) => tool.name), TOOLS);
    for (const tool of tools) {
      assert.ok(tool.title && tool.description && tool.outputSchema, tool.name);
      assert.equal(tool.annotations.openWorldHint, false, tool.name);
    }
  });
}

async function finding(client) {
  await check('notes are added', async () => {
    for (const note of FIXTURES.notes) await ask(client, 'add_note', note);
  });
  await settle(client);
  for (const { query, title } of FIXTURES.particles) {
    await check(`\`${query}\` finds \`${title}\`, composed and decomposed (C1)`, async () => {
      const found = titles(await ask(client, 'search_notes', { query }));
      assert.ok(found.includes(title), found.join());
      assert.deepEqual(titles(await ask(client, 'search_notes', { query: query.normalize('NFD') })), found);
    });
  }
  for (const { pair, query, title } of FIXTURES.questions) {
    await check(`by meaning, ${pair}: ${query}`, async () => {
      for (const mode of ['hybrid', 'vector']) {
        const answer = await ask(client, 'semantic_search_notes', { query, mode, limit: 3 });
        assert.ok(titles(answer).includes(title), `${mode}: ${titles(answer).join()}`);
        assert.equal(answer.index.state, 'complete');
      }
    });
  }
}

async function longNotes(client) {
  const content = longNote(FIXTURES);
  const lines = content.split('\n');
  const { id } = await ask(client, 'add_note', { title: 'Long diary', content });
  await settle(client);
  for (const marker of FIXTURES.markers) {
    const line = lines.indexOf(marker.sentence) + 1;
    await check(`the marker at ${marker.at} characters is found by words and by meaning (C4)`, async () => {
      for (const [tool, args, shown] of [
        ['search_notes', { query: marker.words }, marker.words.split(' ')[0]],
        ['semantic_search_notes', { query: marker.meaning, mode: 'vector' }, marker.sentence],
      ]) {
        const { matches } = await ask(client, tool, { ...args, limit: 3 });
        const match = matches.find((found) => found.id === id);
        assert.ok(match?.snippet.includes(shown), `${tool}: ${match?.snippet}`);
        assert.ok(match.lines[0] <= line && line <= match.lines[1], `${tool}: ${line} in ${match.lines}`);
      }
    });
  }
  await ask(client, 'delete_note', { id });
}

async function editing(client) {
  const added = await ask(client, 'add_note', { title: 'Garden plan', content: 'Tomatoes along the wall.' });
  const { id } = added;
  const isFound = async (query) => ids(await ask(client, 'search_notes', { query })).includes(id);
  let revision;
  await check('an edit is written, its new words are found at once, the old ones not (C5)', async () => {
    const replace = { find: 'Tomatoes', with: 'Zucchini' };
    ({ revision } = await ask(client, 'update_note', { id, expected_revision: added.revision, replace }));
    assert.ok(await isFound('Zucchini'));
    assert.ok(!(await isFound('Tomatoes')));
  });
  await check('an edit with a stale revision is refused in words', async () => {
    const stale = { id, expected_revision: added.revision, content: 'x' };
    const [content, text] = await refused(client, 'update_note', stale);
    assert.equal(content.code, 'conflict');
    assert.equal(content.found_revision, revision);
    assert.match(text, /get_note/);
  });
  await check('a deleted note is gone from both searches (C5)', async () => {
    await settle(client);
    await ask(client, 'delete_note', { id });
    assert.ok(!(await isFound('Zucchini')));
    for (const mode of ['hybrid', 'vector']) {
      const query = 'vegetables in the garden';
      const answer = await ask(client, 'semantic_search_notes', { query, mode, limit: 50 });
      assert.ok(!ids(answer).includes(id));
    }
  });
  await check('a restored note is found again', async () => {
    await ask(client, 'restore_note', { id });
    assert.ok(await isFound('Zucchini'));
    assert.equal((await ask(client, 'get_note', { id })).content, 'Zucchini along the wall.');
    await ask(client, 'delete_note', { id });
  });
}

async function progress(client) {
  const added = await ask(client, 'add_note', { title: 'To be embedded', content: longNote(FIXTURES) });
  await check('reindex_notes runs to its end and the client sees progress', async () => {
    const seen = [];
    const onprogress = (step) => seen.push(step);
    let job = await ask(client, 'reindex_notes', { scope: 'all', wait_seconds: 50 }, { onprogress });
    while (['queued', 'running'].includes(job.state)) {
      job = await ask(client, 'job_status', { job_id: job.job_id, wait_seconds: 50 });
    }
    assert.equal(job.state, 'done');
    assert.ok(seen.length >= 2, JSON.stringify(seen));
    seen.forEach((step, at) => assert.ok(at === 0 || step.progress > seen[at - 1].progress, JSON.stringify(seen)));
    assert.ok(seen.every((step) => step.total > 0 && step.message), JSON.stringify(seen));
  });
  await ask(client, 'delete_note', { id: added.id });
  await check('a client that no longer waits is not answered, and the server goes on', async () => {
    const call = ask(client, 'reindex_notes', { scope: 'all', wait_seconds: 50 }, { signal: AbortSignal.timeout(1) });
    await errorOf(call);
    const { jobs } = await ask(client, 'index_status');
    assert.equal((await ask(client, 'job_status', { job_id: jobs[0].job_id, wait_seconds: 50 })).state, 'done');
  });
}

async function wrongInWords(client) {
  for (const [what, tool, args, field] of [
    ['a blank query', 'search_notes', { query: '  ' }, 'query'],
    ['limit 0', 'semantic_search_notes', { query: 'a', limit: 0 }, 'limit'],
    ['an unknown argument', 'search_notes', { query: 'a', lmit: 3 }, 'lmit'],
    ['a blank title', 'add_note', { title: ' ', content: 'x' }, 'title'],
  ]) {
    await check(`${what} is a result with field and reason (2025-11-25)`, async () => {
      const [content, text] = await refused(client, tool, args);
      assert.equal(content.code, 'invalid_argument');
      assert.equal(content.field, field);
      assert.ok(content.reason && text.includes(field), text);
    });
  }
  await check('an unknown id is refused in words', async () => {
    const [content, text] = await refused(client, 'get_note', { id: 999999 });
    assert.equal(content.code, 'not_found');
    assert.match(text, /999999/);
  });
  await check('an unknown tool is -32602', async () => {
    const error = await errorOf(client.callTool({ name: 'no_such_tool', arguments: {} }));
    assert.equal(error.code, -32602);
    assert.equal(error.data.field, 'name');
  });
}

async function wrongInErrors(place) {
  const client = await place.client({ revision: '2025-06-18' });
  for (const [what, tool, args, field] of [
    ['a blank query', 'search_notes', { query: '  ' }, 'query'],
    ['limit 0', 'semantic_search_notes', { query: 'a', limit: 0 }, 'limit'],
    ['an unknown argument', 'search_notes', { query: 'a', lmit: 3 }, 'lmit'],
  ]) {
    await check(`${what} is -32602 with field and reason (2025-06-18)`, async () => {
      const error = await errorOf(client.callTool({ name: tool, arguments: args }));
      assert.equal(error.code, -32602);
      assert.equal(error.data.field, field);
      assert.ok(error.data.reason);
    });
  }
  await check('an unknown id is a result in words (2025-06-18)', async () => {
    const [content] = await refused(client, 'get_note', { id: 999999 });
    assert.equal(content.code, 'not_found');
  });
  await client.close();
}

async function resources(client) {
  await check('notes are resources that can be read, listed and completed', async () => {
    const { resources: listed } = await client.listResources();
    assert.equal(listed[0].uri, 'pkm://status');
    const { contents } = await client.readResource({ uri: listed[1].uri });
    assert.equal(contents[0].mimeType, 'text/markdown');
    const { completion } = await client.complete({
      ref: { type: 'ref/resource', uri: 'note://{id}' },
      argument: { name: 'id', value: '김치' },
    });
    assert.equal(completion.values.length, 1);
    const note = await client.readResource({ uri: `note://${completion.values[0]}` });
    assert.match(note.contents[0].text, /두부/);
  });
  await check('a resource that is not there is -32002', async () => {
    const error = await errorOf(client.readResource({ uri: 'note://999999' }));
    assert.equal(error.code, -32002);
  });
  await check('prompts come with the notes they are about', async () => {
    const { prompts } = await client.listPrompts();
    assert.deepEqual(prompts.map((prompt) => prompt.name), ['find_connections', 'summarize_topic', 'weekly_review']);
    const { messages } = await client.getPrompt({ name: 'summarize_topic', arguments: { topic: '김치찌개' } });
    assert.ok(messages.some((message) => message.content.type === 'resource' && /두부/.test(message.content.resource.text)));
  });
}

async function withoutModel() {
  const place = new Place(binary, models);
  const client = await place.client({ withModel: false });
  await client.listTools();
  await check('without a model, notes are written and found by words', async () => {
    for (const note of FIXTURES.notes) await ask(client, 'add_note', note);
    assert.ok(titles(await ask(client, 'search_notes', { query: '알림' })).includes('알림 개편 회의'));
  });
  await check('without a model, search by meaning says so in words', async () => {
    const [content, text] = await refused(client, 'semantic_search_notes', { query: 'soup', mode: 'vector' });
    assert.equal(content.code, 'no_model');
    assert.match(text, /search_notes/);
    const answer = await ask(client, 'semantic_search_notes', { query: '알림' });
    assert.equal(answer.index.state, 'keyword_only');
    assert.ok(answer.index.reason);
  });
  await check('fifty long notes fit one answer, and what was cut is marked (C13)', async () => {
    for (let number = 0; number < 50; number += 1) {
      const line = (at) => `분기보고 ${number}-${at}: 매출과 지원, quarterly figures in detail.`;
      const content = Array.from({ length: 150 }, (_, at) => line(at)).join('\n');
      await ask(client, 'add_note', { title: `분기보고 ${number}`, content });
    }
    const result = await client.callTool({ name: 'search_notes', arguments: { query: '분기보고', limit: 50 } });
    assert.equal(result.structuredContent.matches.length, 50);
    assert.ok(Buffer.byteLength(JSON.stringify(result)) < ANSWER_MAX_BYTES);
    assert.match(result.content[0].text, /…[\s\S]*get_note/);
  });
  await client.close();
  place.remove();
}

async function twoServers() {
  const place = new Place(binary, models);
  const clients = await Promise.all([place.client(), place.client()]);
  await check('two servers on one folder: twenty notes each at once, each acknowledged once (C8)', async () => {
    const add = async (client, name) => {
      const answers = [];
      for (let number = 0; number < 20; number += 1) {
        const note = { title: `${name} ${number}`, content: `shared word ${name}${number}` };
        answers.push(await ask(client, 'add_note', note));
      }
      return answers;
    };
    const answers = (await Promise.all([add(clients[0], 'alpha'), add(clients[1], 'beta')])).flat();
    assert.equal(new Set(answers.map((answer) => answer.id)).size, 40);
    for (const client of clients) {
      for (const name of ['alpha', 'beta']) {
        assert.ok(titles(await ask(client, 'search_notes', { query: `${name}19` })).includes(`${name} 19`));
      }
      assert.equal((await ask(client, 'list_notes', { limit: 1 })).total, 40);
    }
  });
  await Promise.all(clients.map((client) => client.close()));
  place.remove();
}

async function imported() {
  const place = new Place(binary, models);
  const folder = join(place.root, 'vault');
  mkdirSync(folder);
  const body = '---\r\ntitle: 정원 일지\r\ntags: [정원, garden]\r\n---\r\n# 봄\r\n\r\n상추와 바질을 심었다.\r\n\r\n---\r\n\r\n'
    + '```sh\r\n# water the plants\r\npump --minutes 5\r\n```\r\n';
  writeFileSync(join(folder, 'garden.md'), `\ufeff${body}`);
  execFileSync(binary, place.arguments(['import', folder]), { env: place.env, stdio: ['ignore', 'ignore', 'inherit'] });
  const client = await place.client();
  await check('an imported file keeps tags, headings and bytes (C16)', async () => {
    const { matches } = await ask(client, 'search_notes', { query: '바질', tags: ['정원'] });
    assert.deepEqual([...matches[0].tags].sort(), ['garden', '정원'].sort());
    const note = await ask(client, 'get_note', { id: matches[0].id });
    assert.equal(note.content.replace(/^\ufeff/, ''), body);
    const fenced = (await ask(client, 'search_notes', { query: 'water the plants' })).matches[0];
    assert.deepEqual(fenced.heading, ['봄']);
  });
  await client.close();
  place.remove();
}

const place = new Place(binary, models);
const client = await place.client();
await startUp(client);
await finding(client);
await longNotes(client);
await editing(client);
await progress(client);
await wrongInWords(client);
await resources(client);
await client.close();
await wrongInErrors(place);
place.remove();
await withoutModel();
await twoServers();
await imported();
process.exitCode = summary();
