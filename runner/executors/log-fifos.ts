import { execFile } from "node:child_process";
import { constants, openSync } from "node:fs";
import { rm } from "node:fs/promises";
import { Socket } from "node:net";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { promisify } from "node:util";
import { LOG_TAIL_BYTES, LogStream } from "../../protocol/runner.ts";
import type { TakeOutput } from "./executor.ts";

/** How long after the command's end that of its output may come. If it does not, somebody else holds a FIFO. */
const END_WITHIN_MS = 2000;
/** A FIFO holds no more at a time. */
const READ_BYTES = 64 * 1024;

interface Reading<T> {
  /** Lets a command print into the FIFOs until it has ended. */
  readonly work: () => Promise<T>;
  readonly onOutput?: TakeOutput | undefined;
}

const STREAMS = LogStream.options;

/**
 * FIFOs for stdout and stderr of one worker's commands, one after the other. The agent reads them itself, as it comes: a
 * command never waits until its log is shipped, and its output crosses no other process. The order within each stream is
 * that of the command; between them it is that in which the agent found them.
 */
export class LogFifos {
  readonly paths: Readonly<Record<LogStream, string>>;
  readonly #mode: string;
  readonly #buffer = Buffer.allocUnsafeSlow(READ_BYTES);
  /** Nobody else has a FIFO open, so that the end of the next command will be the end of its log. */
  #clean = false;

  /** The FIFOs are made in `dir` when they are first needed, by the names of their streams. `mode`: as for chmod; those who print need `w`. */
  constructor(dir: string, { mode = "600" } = {}) {
    this.paths = { stdout: join(dir, "stdout"), stderr: join(dir, "stderr") };
    this.#mode = mode;
  }

  /** Reads while `work` is done and to the end of what was printed. Returns the last of it; throws what `work` throws. */
  async during<T>({ work, onOutput }: Reading<T>): Promise<{ done: T; log: string }> {
    if (!this.#clean) await this.#make();
    this.#clean = false;
    const tail = new LogTail();
    const take: TakeOutput = (bytes, stream) => {
      tail.add(bytes);
      onOutput?.(bytes, stream);
    };
    const sockets: Socket[] = [];
    try {
      for (const stream of STREAMS) sockets.push(this.#read(stream, take));
      const ended = Promise.all(sockets.map(closeOf));
      const done = await work();
      this.#clean = await endOf(ended);
      return { done, log: tail.text() };
    } finally {
      for (const socket of sockets) socket.destroy();
    }
  }

  async #make(): Promise<void> {
    const paths = Object.values(this.paths);
    for (const path of paths) await rm(path, { force: true });
    await promisify(execFile)("mkfifo", ["-m", this.#mode, ...paths]);
  }

  /** Opened before there is a writer, it waits for the first one; the end comes when the last one is gone. */
  #read(stream: LogStream, take: TakeOutput): Socket {
    const callback = (count: number, buffer: Uint8Array) => {
      take(Buffer.from(buffer.buffer, buffer.byteOffset, count), stream);
      return true;
    };
    const fd = openSync(this.paths[stream], constants.O_RDONLY | constants.O_NONBLOCK);
    // One buffer for all reads, of both streams: each is taken before the next one begins. New ones for a command that
    // prints a gigabyte would pile up faster than they are collected.
    const onread = { buffer: this.#buffer, callback };
    const socket = new Socket({ fd, readable: true, writable: false, onread });
    // After an error there is nothing more to read.
    socket.on("error", () => undefined);
    return socket.resume();
  }
}

function closeOf(socket: Socket): Promise<void> {
  return new Promise((resolve) => socket.once("close", () => resolve()));
}

async function endOf(ended: Promise<unknown>): Promise<boolean> {
  const waiting = new AbortController();
  const late = delay(END_WITHIN_MS, false, { signal: waiting.signal }).catch(() => false);
  try {
    return await Promise.race([ended.then(() => true), late]);
  } finally {
    waiting.abort();
  }
}

/** Keeps the last LOG_TAIL_BYTES of what it is given, however much that is. */
export class LogTail {
  #kept: Buffer = Buffer.alloc(0);

  add(chunk: Buffer): void {
    const end = chunk.subarray(-LOG_TAIL_BYTES);
    const before = this.#kept.subarray(Math.max(0, this.#kept.length + end.length - LOG_TAIL_BYTES));
    this.#kept = Buffer.concat([before, end]);
  }

  /** The bytes as text, without a character that was cut in two at the start. */
  text(): string {
    let start = 0;
    const cut = this.#kept.length === LOG_TAIL_BYTES;
    while (cut && start < 4 && ((this.#kept[start] ?? 0) & 0xc0) === 0x80) start += 1;
    return this.#kept.toString("utf8", start);
  }
}
