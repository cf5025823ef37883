// The same tour of the server with every client library of npm, over stdio and HTTP, in both eras:
// tour.mjs BINARY MODELS FIXTURES
//
// Prints a line a check and at the end `N passed, M failed`.

import assert from 'node:assert/strict';
import { setTimeout as sleep } from 'node:timers/promises';

import { Place, check, fixtures, longNote, summary } from './place.mjs';
import { VISITS } from './visitors.mjs';

const [binary, models, fixturesPath, only = ''] = process.argv.slice(2);
const FIXTURES = fixtures(fixturesPath);
const noteOf = (title) => FIXTURES.notes.find((note) => note.title === title);

/** The structured content of a call that must succeed. */
async function ask(visitor, name, args = {}, options = undefined) {
  const result = await visitor.call(name, args, options);
  assert.ok(!result.isError, result.content[0].text);
  return result.structuredContent;
}

/** Waits for the end of a job. */
async function done(visitor, job) {
  while (['queued', 'running'].includes(job.state)) {
    job = await ask(visitor, 'job_status', { job_id: job.job_id, wait_seconds: 50 });
  }
  assert.equal(job.state, 'done');
}

/** The error that a call must end with. */
async function errorOf(call) {
  const [outcome] = await Promise.allSettled([call]);
  assert.equal(outcome.status, 'rejected', 'the call succeeded');
  return outcome.reason;
}

const idsOf = (answer) => answer.matches.map((match) => match.id);

async function tour(visitor, revision, way) {
  const { client } = visitor;
  const step = (what, run) => check(`${way}: ${what}`, run);
  const notes = {};

  await step(`speaks ${revision}`, () => assert.equal(visitor.revision, revision));
  // From here on the client checks answers against the output schemas.
  await step('tools are listed', async () => {
    const names = (await client.listTools()).tools.map((tool) => tool.name);
    for (const name of ['add_note', 'search_notes', 'semantic_search_notes', 'reindex_notes', 'empty_trash']) {
      assert.ok(names.includes(name), names.join());
    }
  });
  await step('notes are added', async () => {
    notes.korean = (await ask(visitor, 'add_note', noteOf('보일러 동파 대처'))).id;
    notes.english = (await ask(visitor, 'add_note', noteOf('Sourdough starter'))).id;
    notes.long = (await ask(visitor, 'add_note', { title: 'Long diary', content: longNote(FIXTURES, 8000) })).id;
  });
  await step('a note is found by its words', async () => {
    for (const [query, id] of [['계량기함', notes.korean], ['sourdough', notes.english]]) {
      assert.equal(idsOf(await ask(visitor, 'search_notes', { query }))[0], id);
    }
  });
  await step('reindex_notes tells its progress', async () => {
    const seen = [];
    const onprogress = (progress) => seen.push(progress);
    await done(visitor, await ask(visitor, 'reindex_notes', { scope: 'all', wait_seconds: 50 }, { onprogress }));
    assert.ok(seen.length >= 2, JSON.stringify(seen));
    seen.forEach(({ progress }, at) => assert.ok(at === 0 || progress > seen[at - 1].progress, JSON.stringify(seen)));
    assert.ok(seen.every(({ total, message }) => total > 0 && message), JSON.stringify(seen));
  });
  await step('a note is found by its meaning', async () => {
    for (const [query, id] of [['얼어붙은 수도를 어떻게 하나', notes.korean], ['keeping bread yeast alive', notes.english]]) {
      const answer = await ask(visitor, 'semantic_search_notes', { query, mode: 'vector', limit: 1 });
      assert.deepEqual(idsOf(answer), [id]);
    }
  });
  await step('an error is read', async () => {
    const result = await visitor.call('search_notes', { query: '  ' });
    assert.equal(result.isError, true);
    assert.equal(result.structuredContent.field, 'query');
    assert.match(result.content[0].text, /query/);
    const error = await errorOf(visitor.call('no_such_tool', {}));
    assert.equal(error.code, -32602);
    assert.equal(error.data.field, 'name');
  });
  await step('a call is cancelled in its middle, and the server goes on', async () => {
    const cancel = new AbortController();
    const options = { signal: cancel.signal, onprogress: () => cancel.abort() };
    await errorOf(visitor.call('reindex_notes', { scope: 'all', wait_seconds: 50 }, options));
    assert.ok(cancel.signal.aborted, 'the call ended before it was cancelled');
    // Not waiting for a job is not stopping it.
    const { jobs } = await ask(visitor, 'index_status');
    await done(visitor, await ask(visitor, 'job_status', { job_id: jobs[0].job_id, wait_seconds: 50 }));
  });
  await step('resources are listed, read and completed', async () => {
    const listed = (await client.listResources()).resources.map((resource) => resource.uri);
    for (const uri of ['pkm://status', `note://${notes.korean}`, `note://${notes.english}`]) {
      assert.ok(listed.includes(uri), listed.join());
    }
    const { resourceTemplates } = await client.listResourceTemplates();
    assert.ok(resourceTemplates.some((template) => template.uriTemplate === 'note://{id}'));
    const { contents } = await client.readResource({ uri: `note://${notes.korean}` });
    assert.equal(contents[0].mimeType, 'text/markdown');
    assert.match(contents[0].text, /계량기함/);
    const { completion } = await client.complete({
      ref: { type: 'ref/resource', uri: 'note://{id}' },
      argument: { name: 'id', value: 'Sourdough' },
    });
    assert.deepEqual(completion.values, [String(notes.english)]);
    const error = await errorOf(client.readResource({ uri: 'note://999999' }));
    // The newer library gives the newer code in both eras.
    assert.ok([-32002, -32602].includes(error.code), `${error.code}`);
    assert.equal(error.data.uri, 'note://999999');
  });
  await step('prompts are listed and filled in', async () => {
    const names = (await client.listPrompts()).prompts.map((prompt) => prompt.name);
    assert.deepEqual(names.sort(), ['find_connections', 'summarize_topic', 'weekly_review']);
    const { messages } = await client.getPrompt({ name: 'summarize_topic', arguments: { topic: 'sourdough' } });
    assert.ok(messages.some(({ content }) => content.resource?.uri === `note://${notes.english}`));
  });
  await step('a change of a watched note is told', async () => {
    const uri = `note://${notes.english}`;
    await visitor.watching(uri, async () => {
      await ask(visitor, 'update_note', { id: notes.english, append: 'And a pinch of salt.' });
      for (let waited = 0; visitor.updated.length === 0 && waited < 30_000; waited += 20) await sleep(20);
      assert.deepEqual(visitor.updated.slice(0, 1), [uri]);
    });
  });
  await step('the user is asked before the trash is emptied', async () => {
    await ask(visitor, 'delete_note', { id: notes.long });
    const { outcome, trashed } = await ask(visitor, 'empty_trash');
    assert.equal(visitor.asked.length, 1);
    assert.deepEqual({ outcome, trashed }, { outcome: 'deleted', trashed: 0 });
  });
  for (const id of [notes.korean, notes.english]) await ask(visitor, 'delete_note', { id });
}

async function visits(place, address) {
  for (const { name, library, mode, revision } of VISITS) {
    const way = `${name}, over ${address ? 'HTTP' : 'stdio'}`;
    if (!way.includes(only)) continue;
    await check(`${way}: comes and goes`, async () => {
      const visitor = await library.visit(place, address, mode);
      await tour(visitor, revision, way);
      await visitor.client.close();
    });
  }
}

const place = new Place(binary, models);
await visits(place);
await check('the server over HTTP comes and goes', () => place.overHttp((address) => visits(place, address)));
place.remove();
process.exitCode = summary();
