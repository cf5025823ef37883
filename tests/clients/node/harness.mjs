// A place with a client of npm's `@modelcontextprotocol/sdk`, and what one asks such a client.

import assert from 'node:assert/strict';
import { join } from 'node:path';

import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';

import * as places from './place.mjs';

export { check, fixtures, longNote, summary } from './place.mjs';

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

export class Place extends places.Place {
  /** A connected client. */
  async client({ withModel = true, revision } = {}) {
    const models = withModel ? this.models : join(this.root, 'no-models');
    const parameters = { command: this.binary, args: this.arguments(['serve'], models), env: this.env };
    const transport = revision ? new OlderTransport(parameters, revision) : new StdioClientTransport(parameters);
    const client = new Client({ name: 'client-tests', version: '1' }, { capabilities: {} });
    await client.connect(transport);
    return client;
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
