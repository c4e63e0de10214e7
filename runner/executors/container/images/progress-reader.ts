import { StringDecoder } from "node:string_decoder";
import { z } from "zod";

/** No record is longer; what is would not be one that matters. */
const MAX_RECORD_CHARACTERS = 1024 * 1024;

const Failure = z.union([
  z.object({ errorDetail: z.object({ message: z.string().min(1) }) }),
  z.object({ error: z.string().min(1) }),
]);

/** Reads what an engine tells of a pull or a push, JSON records a line each, and keeps nothing but its first failure. */
export class ProgressReader {
  readonly #decoder = new StringDecoder("utf8");
  #rest = "";
  #failure: string | undefined;

  add(chunk: Uint8Array): void {
    const lines = (this.#rest + this.#decoder.write(chunk)).split("\n");
    this.#rest = (lines.pop() ?? "").slice(0, MAX_RECORD_CHARACTERS);
    for (const line of lines) this.#read(line);
  }

  /** Why it failed, or undefined. */
  end(): string | undefined {
    this.#read(this.#rest);
    return this.#failure;
  }

  #read(line: string): void {
    // Progress comes by the thousand.
    if (this.#failure !== undefined || !line.includes('"error')) return;
    this.#failure = failureIn(line);
  }
}

function failureIn(line: string): string | undefined {
  try {
    const { data } = Failure.safeParse(JSON.parse(line));
    if (data === undefined) return undefined;
    return "error" in data ? data.error : data.errorDetail.message;
  } catch {
    return undefined;
  }
}
