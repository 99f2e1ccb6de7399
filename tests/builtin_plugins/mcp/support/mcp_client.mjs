// Speaks to an MCP server with the official client of TypeScript, and prints what came of it as one JSON document.
//
//     node mcp_client.mjs PEERS < ASKED
//
// PEERS: the folder in which the client is installed. ASKED, as JSON: how to reach the server ({"command", "args",
// "env", "cwd"} or {"url", "headers"}), "mode" (legacy, auto), "steps". A step is a list of what is asked at once:
// {"call": tool, "arguments"}, with "leave": true given up at the first progress; or {"ask": method, "params"}.

import { createRequire } from "node:module";
import { join } from "node:path";
import { text } from "node:stream/consumers";

const PATIENCE_MS = 25_000;

const installed = createRequire(join(process.argv[2], "package.json"));
const { Client, StreamableHTTPClientTransport } = installed("@modelcontextprotocol/client");
const { StdioClientTransport } = installed("@modelcontextprotocol/client/stdio");

const METHODS = {
  "prompts/get": "getPrompt",
  "prompts/list": "listPrompts",
  "resources/list": "listResources",
  "resources/read": "readResource",
  "resources/templates/list": "listResourceTemplates",
  "tools/list": "listTools",
};

function reached(asked) {
  if (asked.url) {
    return new StreamableHTTPClientTransport(new URL(asked.url), { requestInit: { headers: asked.headers } });
  }
  const { command, args, env, cwd } = asked;
  return new StdioClientTransport({ command, args, env, cwd });
}

async function done(client, step) {
  const progress = [];
  const leaving = new AbortController();
  const onprogress = (told) => {
    progress.push([told.progress, told.total ?? null]);
    if (step.leave) leaving.abort("enough");
  };
  const options = { onprogress, signal: leaving.signal, timeout: PATIENCE_MS };
  try {
    const result = step.ask
      ? await client[METHODS[step.ask]](step.params, { timeout: PATIENCE_MS })
      : await client.callTool({ name: step.call, arguments: step.arguments ?? {} }, options);
    return { result, progress };
  } catch (error) {
    return { error: error.message, kind: error.constructor.name, code: error.code ?? null, progress };
  }
}

async function main() {
  const asked = JSON.parse(await text(process.stdin));
  const client = new Client({ name: asked.name ?? "typescript", version: "1" }, { versionNegotiation: { mode: asked.mode } });
  await client.connect(reached(asked), { timeout: PATIENCE_MS });
  const came = [];
  for (const step of asked.steps) came.push(await Promise.all(step.map((each) => done(client, each))));
  const said = {
    version: client.getNegotiatedProtocolVersion(),
    server: client.getServerVersion(),
    capabilities: client.getServerCapabilities(),
    came,
  };
  await client.close();
  process.stdout.write(JSON.stringify(said));
}

try {
  await main();
} catch (error) {
  process.stderr.write(`${error.name}: ${error.message}\n`);
  process.exitCode = 1;
}
