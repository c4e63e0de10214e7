import { request } from "node:http";
import type { Socket } from "node:net";
import { text } from "node:stream/consumers";
import { z } from "zod";
import { errorCode, messageOf } from "../../../lib/fault.ts";
import { NodeCondition } from "../../executor.ts";
import { type Engine, EngineRefusal } from "./engine.ts";

const HEADER_BYTES = 8;
const Answer = z.object({ message: z.string() });

/**
 * Connects to the stdin or to the output of a container that has not been started yet. By hand, because the library
 * posts its options along, which Podman hands to the command as its first input. Never to both at once: if a command
 * does not read its input, Podman prints that among the command's output. Throws NodeCondition and EngineRefusal.
 */
export function attach(
  { kind, socket }: Engine,
  { id, streams }: { id: string; streams: "stdin=1" | "stdout=1&stderr=1" },
): Promise<Socket> {
  const { promise, resolve, reject } = Promise.withResolvers<Socket>();
  const call = request({
    method: "POST",
    socketPath: socket,
    path: `/containers/${id}/attach?stream=1&${streams}`,
    headers: { Connection: "Upgrade", Upgrade: "tcp", "Content-Length": 0 },
  });
  call.once("upgrade", (_, stream: Socket, head: Buffer) => {
    if (head.length > 0) stream.unshift(head);
    resolve(stream);
  });
  call.once("response", (answer) => {
    // Podman looks for the command's program already here.
    text(answer).then((words) => reject(new EngineRefusal(answer.statusCode ?? 0, messageIn(words))), reject);
  });
  call.once("error", (error) =>
    reject(
      new NodeCondition(`${kind} could not connect to a container: ${errorCode(error) ?? messageOf(error)}`),
    ),
  );
  call.end();
  return promise;
}

function messageIn(words: string): string {
  try {
    return Answer.parse(JSON.parse(words)).message;
  } catch {
    return words;
  }
}

/** What comes on stdout and stderr, out of the frames of an attached stream. */
export class Frames {
  #pending: Buffer = Buffer.alloc(0);
  /** Bytes of the present frame that are still to come. */
  #left = 0;
  readonly #onOutput: (bytes: Buffer) => void;

  constructor(onOutput: (bytes: Buffer) => void) {
    this.#onOutput = onOutput;
  }

  add(bytes: Buffer): void {
    let rest = this.#pending.length > 0 ? Buffer.concat([this.#pending, bytes]) : bytes;
    while (rest.length > 0) {
      if (this.#left === 0) {
        if (rest.length < HEADER_BYTES) break;
        this.#left = rest.readUInt32BE(4);
        rest = rest.subarray(HEADER_BYTES);
      }
      const part = rest.subarray(0, this.#left);
      if (part.length > 0) this.#onOutput(part);
      this.#left -= part.length;
      rest = rest.subarray(part.length);
    }
    this.#pending = Buffer.from(rest);
  }
}
