// Drives a memory server with the client of the protocol's own SDK, which checks every structured
// answer against the schema that the server gave. Words: the SDK's package directory, then the
// server's command. Prints what it saw as JSON.
import { createRequire } from 'node:module';
import { pathToFileURL } from 'node:url';

const [, , near, command, ...args] = process.argv;
const load = (name) => import(pathToFileURL(createRequire(near).resolve(name)));
const { Client } = await load('@modelcontextprotocol/sdk/client/index.js');
const { StdioClientTransport } = await load('@modelcontextprotocol/sdk/client/stdio.js');

const client = new Client({ name: 'test', version: '1' });
await client.connect(new StdioClientTransport({ command, args, env: process.env }));
const { tools } = await client.listTools();
const call = (name, args) => client.callTool({ name, arguments: args });
const entities = [{ name: 'Ada', entityType: 'person', observations: ['writes'] }];
const relations = [{ from: 'Ada', to: 'Bob', relationType: 'knows' }];
await call('create_entities', { entities });
await call('create_relations', { relations });
await call('add_observations', { observations: [{ entityName: 'Ada', contents: ['paints'] }] });
await call('delete_observations', { deletions: [{ entityName: 'Ada', observations: ['writes'] }] });
const found = await call('search_nodes', { query: 'PAINT' });
const opened = await call('open_nodes', { names: ['Ada'] });
const refused = await call('open_nodes', { names: 'Ada' });
await call('delete_relations', { relations });
await call('delete_entities', { entityNames: ['Ada'] });
const left = await call('read_graph', {});
const { resources } = await client.listResources();
console.log(JSON.stringify({
  tools: tools.length,
  found: found.structuredContent,
  opened: opened.structuredContent,
  refused: refused.isError,
  left: left.structuredContent,
  resources: resources.length,
}));
await client.close();
