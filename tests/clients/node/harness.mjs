// Starts the server for a real client, and counts what held and what did not.

import assert from 'node:assert/strict';
import { readFileSync, mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';

export const MODEL = 'multilingual-e5-small-q4';

let passed = 0;
const failed = [];

/** One line of output, whatever happens inside. */
export async function check(what, run) {
  try {
    await run();
    passed += 1;
    console.log(`ok ${what}`);
  } catch (error) {
    failed.push(what);
    console.log(`FAILED ${what}\n${error.stack}`);
  }
}

/** The closing line, and the exit code. */
export function summary() {
  for (const what of failed) console.log(`failed: ${what}`);
  console.log(`${passed} passed, ${failed.length} failed`);
  return failed.length === 0 ? 0 : 1;
}

/** What both clients' tests are made of. */
export function fixtures(path) {
  return JSON.parse(readFileSync(path, 'utf8'));
}

/** Says an older revision in the handshake than the client would. */
class OlderTransport extends StdioClientTransport {
  constructor(parameters, revision) {
    super(parameters);
    this.revision = revision;
  }

  send(message, options) {
    if (message.method === 'initialize') {
      message = { ...message, params: { ...message.params, protocolVersion: this.revision } };
    }
    return super.send(message, options);
  }
}

/** A data folder of its own, and how to start the server on it. */
export class Place {
  constructor(binary, models) {
    this.binary = binary;
    this.models = models;
    this.root = mkdtempSync(join(tmpdir(), 'pkm-clients-'));
    mkdirSync(join(this.root, 'no-models'));
    this.env = {
      PATH: process.env.PATH,
      HOME: this.root,
      XDG_DATA_HOME: join(this.root, 'share'),
      XDG_CONFIG_HOME: join(this.root, 'config'),
    };
  }

  arguments(command, models = this.models) {
    return ['--data', join(this.root, 'data'), '--models', models, '--model', MODEL, ...command];
  }

  /** A connected client. */
  async client({ withModel = true, revision } = {}) {
    const models = withModel ? this.models : join(this.root, 'no-models');
    const parameters = { command: this.binary, args: this.arguments(['serve'], models), env: this.env };
    const transport = revision ? new OlderTransport(parameters, revision) : new StdioClientTransport(parameters);
    const client = new Client({ name: 'client-tests', version: '1' }, { capabilities: {} });
    await client.connect(transport);
    return client;
  }

  remove() {
    rmSync(this.root, { recursive: true, force: true });
  }
}

/** The structured content of a call that must succeed. */
export async function ask(client, name, args = {}, options = undefined) {
  const result = await client.callTool({ name, arguments: args }, undefined, options);
  assert.ok(!result.isError, result.content[0].text);
  return result.structuredContent;
}

/** Structured content and text of a call that must be refused by a result. */
export async function refused(client, name, args) {
  const result = await client.callTool({ name, arguments: args });
  assert.equal(result.isError, true, JSON.stringify(result.structuredContent));
  return [result.structuredContent, result.content[0].text];
}

/** The protocol error that a call must end with. */
export async function errorOf(call) {
  try {
    await call;
  } catch (error) {
    return error;
  }
  throw new Error('the call succeeded');
}

/** Until everything is embedded. */
export async function settle(client) {
  for (let round = 0; round < 20; round += 1) {
    const job = await ask(client, 'reindex_notes', { wait_seconds: 50 });
    if (job.state === 'done' && (await ask(client, 'index_status')).pending === 0) return;
  }
  throw new Error('not embedded in time');
}

export const titles = (answer) => answer.matches.map((match) => match.title);
export const ids = (answer) => answer.matches.map((match) => match.id);

/** 20,000 characters with a marker sentence, alone on its line, at each place that the fixtures name. */
export function longNote({ markers, filler }) {
  const lines = [];
  let length = 0;
  let count = 0;
  for (const marker of [...markers, { at: 20_000, sentence: 'The end.' }]) {
    while (length < marker.at) {
      const line = `${filler[count % filler.length]} (${count})`;
      count += 1;
      lines.push(line);
      length += line.length + 1;
    }
    lines.push(marker.sentence);
    length += marker.sentence.length + 1;
  }
  return lines.join('\n');
}
