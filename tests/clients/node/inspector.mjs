// The server as the command line of npm's `@modelcontextprotocol/inspector` sees it, over stdio and HTTP:
// inspector.mjs BINARY MODELS FIXTURES
//
// Prints a line a check and at the end `N passed, M failed`.

import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

import { Place, check, fixtures, summary } from './place.mjs';

const [binary, models, fixturesPath] = process.argv.slice(2);
const FIXTURES = fixtures(fixturesPath);
const MODULES = join(dirname(fileURLToPath(import.meta.url)), 'node_modules');
const LAUNCHER = join(MODULES, '@modelcontextprotocol/inspector/clients/launcher/build/index.js');

const run = promisify(execFile);

/** One command of the inspector against one server: its exit code, its answer and what it said besides. */
async function inspect(place, address, era, method, ...more) {
  const options = ['--method', method, '--protocol-era', era, '--format', 'json', '--quiet', ...more];
  // What stands behind `--` is the server's command line.
  const target = address
    ? ['--server-url', address, '--transport', 'http', ...options]
    : [...options, '--', place.binary, ...place.arguments(['serve'])];
  const args = [LAUNCHER, '--cli', ...target];
  const { stdout, stderr, code } = await run(process.execPath, args, { env: place.env })
    .then((said) => ({ ...said, code: 0 }), (error) => error);
  return { code, answer: stdout ? JSON.parse(stdout) : undefined, stderr };
}

async function commands(place, address, era) {
  const step = (what, test) => check(`inspector ${era} over ${address ? 'HTTP' : 'stdio'}: ${what}`, test);
  const call = (...more) => inspect(place, address, era, ...more);
  const tool = (name, args) => call('tools/call', '--tool-name', name, '--tool-args-json', JSON.stringify(args));
  const succeeded = ({ code, answer, stderr }) => {
    assert.equal(code, 0, stderr);
    return answer.result ?? answer;
  };

  await step('no schema of a tool is less than portable', async () => {
    const { code, stderr, answer } = await call('tools/list', '--strict');
    assert.equal(code, 0, stderr);
    assert.equal(stderr.trim(), '');
    assert.ok((answer.result ?? answer).tools.length >= 12);
  });
  let id;
  await step('a note is added and found by its words', async () => {
    const [note] = FIXTURES.notes;
    ({ id } = succeeded(await tool('add_note', note)).structuredContent);
    const { matches } = succeeded(await tool('search_notes', { query: '계량기함' })).structuredContent;
    assert.equal(matches[0].id, id);
  });
  await step(`reindex_notes runs to its end${era === 'modern' ? ', as a task' : ''}`, async () => {
    // Without a wait only a task can tell the end.
    const wait_seconds = era === 'modern' ? 0 : 50;
    const { structuredContent } = succeeded(await tool('reindex_notes', { scope: 'all', wait_seconds }));
    assert.equal(structuredContent.state, 'done');
  });
  await step('the note is found by its meaning', async () => {
    const answer = succeeded(await tool('semantic_search_notes', { query: '얼어붙은 수도를 어떻게 하나', mode: 'vector' }));
    assert.equal(answer.structuredContent.matches[0].id, id);
  });
  await step('an error is read', async () => {
    const { code, answer, stderr } = await tool('search_notes', { query: ' ' });
    assert.notEqual(code, 0);
    assert.match(JSON.stringify(answer ?? '') + stderr, /query/);
  });
  await step('resources are listed and read', async () => {
    const { resources } = succeeded(await call('resources/list'));
    assert.ok(resources.some(({ uri }) => uri === `note://${id}`));
    const { resourceTemplates } = succeeded(await call('resources/templates/list'));
    assert.ok(resourceTemplates.some(({ uriTemplate }) => uriTemplate === 'note://{id}'));
    const { contents } = succeeded(await call('resources/read', '--uri', `note://${id}`));
    assert.match(contents[0].text, /계량기함/);
  });
  await step('prompts are listed and filled in', async () => {
    assert.equal(succeeded(await call('prompts/list')).prompts.length, 3);
    const filled = succeeded(await call('prompts/get', '--prompt-name', 'find_connections', '--prompt-args', `note_id=${id}`));
    assert.match(JSON.stringify(filled.messages), /계량기함/);
  });
  succeeded(await tool('delete_note', { id }));
}

async function eras(place, address) {
  for (const era of ['legacy', 'modern']) {
    await check(`inspector ${era} over ${address ? 'HTTP' : 'stdio'}: comes and goes`, () => commands(place, address, era));
  }
}

const place = new Place(binary, models);
await eras(place);
await check('the server over HTTP comes and goes', () => place.overHttp((address) => eras(place, address)));
place.remove();
process.exitCode = summary();
