// Starts the server in a data folder of its own, and counts what held and what did not. Needs no client.

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync, mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';

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

/** What all clients' tests are made of. */
export function fixtures(path) {
  return JSON.parse(readFileSync(path, 'utf8'));
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

  /** Gives `use` the address of a server on a free port; it must end by itself when asked to. */
  async overHttp(use) {
    const command = this.arguments(['serve', '--http', '127.0.0.1:0']);
    const server = spawn(this.binary, command, { env: this.env, stdio: ['ignore', 'ignore', 'pipe'] });
    const ended = once(server, 'exit');
    try {
      const lines = createInterface({ input: server.stderr });
      let address;
      for await (const line of lines) {
        address = /listening on (http:\S+)/.exec(line)?.[1];
        if (address) break;
        console.log(line);
      }
      if (!address) throw new Error('the server does not listen');
      server.stderr.resume();
      await use(address);
    } finally {
      server.kill('SIGTERM');
      const hung = setTimeout(() => server.kill('SIGKILL'), 60_000);
      const [code, signal] = await ended;
      clearTimeout(hung);
      if (code !== 0) throw new Error(`the server ended with ${code ?? signal}`);
    }
  }

  remove() {
    rmSync(this.root, { recursive: true, force: true });
  }
}

/** `size` characters with a marker sentence, alone on its line, at each place that the fixtures name. */
export function longNote({ markers, filler }, size = 20_000) {
  const lines = [];
  let length = 0;
  let count = 0;
  for (const marker of [...markers.filter(({ at }) => at < size), { at: size, sentence: 'The end.' }]) {
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
