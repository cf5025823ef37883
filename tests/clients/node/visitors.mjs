// The client libraries of npm, each as the same kind of visitor.

import { Client as ClientV1 } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport as StdioV1 } from '@modelcontextprotocol/sdk/client/stdio.js';
import { StreamableHTTPClientTransport as HttpV1 } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { ElicitRequestSchema, ResourceUpdatedNotificationSchema } from '@modelcontextprotocol/sdk/types.js';
import { Client as ClientV2, StreamableHTTPClientTransport as HttpV2 } from '@modelcontextprotocol/client';
import { StdioClientTransport as StdioV2 } from '@modelcontextprotocol/client/stdio';

const NEWEST_WITH_HANDSHAKE = '2025-11-25';
const NEWEST = '2026-07-28';
const IDENTITY = { name: 'client-tests', version: '1' };
const CAPABILITIES = { elicitation: { form: {} } };

/** A connected client. Says yes to what the server asks it, and remembers which resources changed. */
class Visitor {
  asked = [];
  updated = [];

  /** What a user who agrees fills in: yes to what is a yes or no, else the first that is offered. */
  consent({ message, requestedSchema }) {
    this.asked.push(message);
    const filledIn = Object.entries(requestedSchema.properties).map(([name, schema]) => [
      name,
      schema.type === 'boolean' ? true : schema.enum?.[0] ?? 'yes',
    ]);
    return { action: 'accept', content: Object.fromEntries(filledIn) };
  }

  /** Runs `use` while changes of `uri` come to `updated`. */
  async watching(uri, use) {
    if (!this.isModern) {
      await this.client.subscribeResource({ uri });
      await use();
      await this.client.unsubscribeResource({ uri });
      return;
    }
    const subscription = await this.client.listen({ resourceSubscriptions: [uri] });
    await use();
    await subscription.close();
  }
}

class V1 extends Visitor {
  static async visit(place, address) {
    const visitor = new V1();
    visitor.client = new ClientV1(IDENTITY, { capabilities: CAPABILITIES });
    visitor.client.setRequestHandler(ElicitRequestSchema, ({ params }) => visitor.consent(params));
    visitor.client.setNotificationHandler(ResourceUpdatedNotificationSchema, ({ params }) => {
      visitor.updated.push(params.uri);
    });
    const transport = address
      ? new HttpV1(new URL(address))
      : new StdioV1({ command: place.binary, args: place.arguments(['serve']), env: place.env });
    // This library tells the negotiated revision to its transport only.
    const tell = transport.setProtocolVersion?.bind(transport);
    transport.setProtocolVersion = (revision) => {
      visitor.revision = revision;
      tell?.(revision);
    };
    await visitor.client.connect(transport);
    return visitor;
  }

  isModern = false;

  call(name, args, options) {
    return this.client.callTool({ name, arguments: args }, undefined, options);
  }
}

class V2 extends Visitor {
  static async visit(place, address, mode) {
    const visitor = new V2();
    visitor.client = new ClientV2(IDENTITY, { capabilities: CAPABILITIES, versionNegotiation: { mode } });
    visitor.client.setRequestHandler('elicitation/create', ({ params }) => visitor.consent(params));
    visitor.client.setNotificationHandler('notifications/resources/updated', ({ params }) => {
      visitor.updated.push(params.uri);
    });
    const transport = address
      ? new HttpV2(new URL(address))
      : new StdioV2({ command: place.binary, args: place.arguments(['serve']), env: place.env });
    await visitor.client.connect(transport);
    visitor.revision = visitor.client.getNegotiatedProtocolVersion();
    return visitor;
  }

  get isModern() {
    return this.client.getProtocolEra() === 'modern';
  }

  call(name, args, options) {
    return this.client.callTool({ name, arguments: args }, options);
  }
}

/** Each library in each era that it can speak, with the revision that must come of it. */
export const VISITS = [
  { name: 'sdk', library: V1, revision: NEWEST_WITH_HANDSHAKE },
  { name: 'client, legacy', library: V2, mode: 'legacy', revision: NEWEST_WITH_HANDSHAKE },
  { name: 'client, auto', library: V2, mode: 'auto', revision: NEWEST },
  { name: 'client, pinned', library: V2, mode: { pin: NEWEST }, revision: NEWEST },
];
