import { writeFileSync } from "node:fs";
import { startDevServer } from "../test/support/dev-server.ts";
import { type Recording, recordingFile } from "../test/support/recordings.ts";
import { startRecorder } from "./recordings/recorder.ts";
import { STORIES } from "./recordings/stories.ts";

/**
 * `npm run recordings:generate -- <client>…`: writes down what clients send that are not installed where the tests run, and
 * what the gateway of today answers. A test sends it again: whoever runs this looks at what changed in the answers.
 *
 * Needs Go for those of Go, `mc` in the PATH for that, and what test/python/install makes for those of Python.
 */
async function record(name: string): Promise<void> {
  const story = STORIES[name];
  if (story === undefined) throw new Error(`${name} is none of ${Object.keys(STORIES).join(", ")}`);
  const server = await startDevServer();
  const recorder = await startRecorder(server);
  try {
    await story.tell({ ...server, endpoint: recorder.endpoint }, `master.${name.toLowerCase()}`);
    const recording: Recording = { client: story.client(), exchanges: recorder.exchanges() };
    writeFileSync(recordingFile(name), written(recording));
    console.log(`${name}: ${recording.exchanges.length} requests`);
  } finally {
    await recorder.stop();
    await server.stop();
  }
}

/** An exchange a line, so that a change of one is a change of a line. */
function written({ client, exchanges }: Recording): string {
  const lines = exchanges.map((exchange) => `    ${JSON.stringify(exchange)}`);
  return `{\n  "client": ${JSON.stringify(client)},\n  "exchanges": [\n${lines.join(",\n")}\n  ]\n}\n`;
}

const [, , ...names] = process.argv;
for (const name of names.length > 0 ? names : Object.keys(STORIES)) await record(name);
process.exit();
